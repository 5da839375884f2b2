"""Branches, loops and scans as functions: what programs write so that a compiler can see them.

They run at once here, one call of the given function after the other, and are differentiable as what they
call is. `compile` makes each of them one node of a graph.

In Python because they take functions. Calls `higher_order`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import Tensor
from flambeau._operators import higher_order
from flambeau._operators.higher_order import refuse, truth
from flambeau.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """Return ``true_fn(*operands)`` if `pred` holds, else ``false_fn(*operands)``.

    Args:
        pred: a bool, or a tensor of one element.
        true_fn: is called if it holds.
        false_fn: is called if it does not.
        operands: a tuple or list of arguments. Default: none.

    If `pred` is a fake tensor, both functions are called, and the result stands for either.

    Raises: RuntimeError for arguments of a wrong kind; `_dynamo.exc.UncapturedHigherOrderOpError`, a
        RuntimeError, for a fake `pred` and functions whose results differ in structure, shape, dtype or
        device.

    >>> import flambeau as fb
    >>> cond(fb.tensor(True), fb.neg, fb.abs, (fb.tensor([1.0]),))
    tensor([-1.])
    """
    if not (callable(true_fn) and callable(false_fn)):
        raise RuntimeError(f"cond: expected callables as branches, got {true_fn!r} and {false_fn!r}")
    if not isinstance(operands, tuple | list):
        raise RuntimeError(f"cond: expected a tuple or list of operands, got {type(operands).__name__}")
    if higher_order.is_unknown(pred):
        return higher_order.either("cond", true_fn(*operands), false_fn(*operands))
    return (true_fn if truth("cond", pred) else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """Call `body_fn` on its own results as long as `cond_fn` of them holds.

    Args:
        cond_fn: returns whether the loop goes on, as a bool or a tensor of one element.
        body_fn: returns as many values as it takes.
        carried_inputs: a tuple or list with the first values.

    Returns:
        The last values, as a tuple: new tensors, also if the body was never called.

    Raises: RuntimeError for arguments of a wrong kind and for conditions of more than one element;
        `_dynamo.exc.UncapturedHigherOrderOpError`, a RuntimeError, for a body whose results differ from its
        arguments in number, structure, shape, dtype or device.

    >>> import flambeau as fb
    >>> while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, 2 * x), (fb.tensor(0), fb.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    if not (callable(cond_fn) and callable(body_fn)):
        raise RuntimeError(
            f"while_loop: expected callables as condition and body, got {cond_fn!r} and {body_fn!r}"
        )
    if not isinstance(carried_inputs, tuple | list):
        raise RuntimeError(
            f"while_loop: expected a tuple or list of inputs, got {type(carried_inputs).__name__}"
        )
    leaves, structure = tree_flatten(tuple(carried_inputs))
    count = len(carried_inputs)

    def condition(*flat: Any) -> Any:
        return cond_fn(*tree_unflatten(flat, structure))

    def body(*flat: Any) -> list[Any]:
        found = body_fn(*tree_unflatten(flat, structure))
        found = tuple(found) if isinstance(found, tuple | list) else (found,)
        if len(found) != count:
            refuse(f"while_loop: expected {count} results of the body, one per input, got {len(found)}")
        made, got = tree_flatten(found)
        if got != structure:
            refuse(f"while_loop: expected results with the structure {structure} of the inputs, got {got}")
        return made

    return tree_unflatten(higher_order.while_loop(condition, body, leaves), structure)


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Cumulate with an associative function along `dim`: result[i] = f(f(x[0], x[1]) ..., x[i]).

    Args:
        combine_fn: takes two slices, without `dim`, and returns one.
        xs: a tensor, or a tree of tensors of the same size in `dim`; slices are trees alike.
        dim: the dimension.
        reverse: whether to begin at the end. Default: False.
        combine_mode: "pointwise" or "generic", a hint for compilers. Default: "pointwise".

    >>> import flambeau as fb
    >>> associative_scan(lambda a, b: a * b, fb.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    if not callable(combine_fn):
        raise ValueError(
            f"associative_scan: expected a callable as combine_fn, got {type(combine_fn).__name__}"
        )
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"associative_scan: expected combine_mode 'pointwise' or 'generic', got {combine_mode!r}"
        )
    leaves, spec = tree_flatten(xs)
    if not leaves or not all(isinstance(x, Tensor) and x.dim() > 0 for x in leaves):
        raise ValueError("associative_scan: expected tensors of at least 1 dimension, got others")
    length = leaves[0].shape[dim]
    if length == 0 or any(x.shape[dim] != length for x in leaves):
        sizes = [x.shape[dim] for x in leaves]
        raise ValueError(f"associative_scan: expected equal sizes in dim {dim}, other than 0, got {sizes}")

    def combine(*flat: Any) -> list[Any]:
        one, other = flat[: len(leaves)], flat[len(leaves) :]
        made, got = tree_flatten(combine_fn(tree_unflatten(one, spec), tree_unflatten(other, spec)))
        if got != spec:
            refuse(f"associative_scan: expected results with the structure {spec} of xs, got {got}")
        return made

    return tree_unflatten(higher_order.associative_scan(combine, leaves, (), dim, reverse), spec)


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Carry a state along `dim`: (carry, ys[i]) = combine_fn(carry, xs[i]).

    Args:
        combine_fn: takes the state and a slice of `xs` without `dim`; returns the next state, with the
            structure, shapes and dtypes of `init`, and a result.
        init: the first state, a tensor or a tree of tensors.
        xs: a tensor, or a tree of tensors of the same size in `dim`.
        dim: the dimension.
        reverse: whether to begin at the end; results keep the order of `xs`. Default: False.

    Returns:
        The last state, and the results, stacked in a new dimension `dim`, the last if they have fewer.

    Raises: RuntimeError if `combine_fn` is not a function, there is no state, or sizes are 0 or differ; its
        subclass `_dynamo.exc.UncapturedHigherOrderOpError` for a result that is not a pair, or a state that
        changes its structure, shape, dtype or device; IndexError for a dimension that does not exist.

    >>> import flambeau as fb
    >>> scan(lambda c, x: (c + x, c * x), fb.tensor(1.0), fb.tensor([1.0, 2.0, 3.0]))
    (tensor(7.), tensor([ 1.,  4., 12.]))
    """
    if not callable(combine_fn):
        raise RuntimeError(f"scan: Combine_fn must be a callable: expected a function, got {combine_fn!r}")
    if not tree_flatten(init)[0]:
        raise RuntimeError("scan: expected at least one tensor as init, got none")
    leaves, structure = tree_flatten(xs)
    if not leaves:
        return init, xs
    _check_scanned(leaves, dim)
    first, state = tree_flatten(init)
    shapes: list[Any] = []

    def combine(*flat: Any) -> list[Any]:
        carry = tree_unflatten(flat[: len(first)], state)
        found = combine_fn(carry, tree_unflatten(flat[len(first) :], structure))
        if not isinstance(found, tuple | list) or len(found) != 2:
            refuse(
                f"scan: expected a pair (carry, y) as the result of combine_fn, got {type(found).__name__}"
            )
        after, got = tree_flatten(found[0])
        if got != state:
            refuse(f"scan: expected carry with the structure {state} of init, got {got}")
        row, shape = tree_flatten(found[1])
        shapes.append(shape)
        return [*after, *row]

    place = dim if dim >= 0 else dim + leaves[0].dim()
    made = higher_order.scan(combine, first, leaves, (), place, reverse)
    return tree_unflatten(made[: len(first)], state), tree_unflatten(made[len(first) :], shapes[-1])


def _check_scanned(leaves: list[Any], dim: int) -> None:
    if not all(isinstance(x, Tensor) for x in leaves):
        raise RuntimeError("scan: expected tensors as xs, got other values")
    for x in leaves:
        if not -x.dim() <= dim < x.dim():
            raise IndexError(
                f"scan: Dimension out of range (expected to be in range of [{-x.dim()}, {x.dim() - 1}], but "
                f"got {dim})"
            )
    sizes = [x.shape[dim] for x in leaves]
    if 0 in sizes or len(set(sizes)) > 1:
        raise RuntimeError(f"scan: expected equal sizes of xs in dim {dim}, other than 0, got {sizes}")


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """Call a function on each slice of the first dimension, and stack the results.

    Args:
        f: takes a slice and `args`; returns a tensor, or a tree of tensors.
        xs: a tensor, or a tree of tensors with equal first dimensions, other than 0.
        *args: further arguments, the same for each slice.

    Returns:
        The results, stacked in a new first dimension.

    Raises: RuntimeError for other values than tensors, and for first dimensions that are 0 or differ.

    >>> import flambeau as fb
    >>> map(lambda x, y: x.sum() * y, fb.ones(3, 2), fb.tensor(2.0))
    tensor([4., 4., 4.])
    """
    if not callable(f):
        raise RuntimeError(f"map: expected a function, got {type(f).__name__}")
    leaves, structure = tree_flatten(xs)
    if not leaves or not all(isinstance(x, Tensor) for x in leaves):
        raise RuntimeError(f"map: Mapped xs can only consist of tensors: expected tensors, got {leaves}")
    shapes = [tuple(x.shape) for x in leaves]
    if any(not shape or shape[0] != shapes[0][0] for shape in shapes):
        raise RuntimeError(
            "map: Leading dimensions of mapped xs must be consistent: expected equal ones, got shapes "
            f"{shapes}"
        )
    if shapes[0][0] == 0:
        raise RuntimeError(
            "map: Leading dimensions of mapped xs cannot be 0: expected at least one slice, got none"
        )
    shapes_of_rows: list[Any] = []

    def step(*flat: Any) -> list[Any]:
        row, shape = tree_flatten(f(tree_unflatten(flat, structure), *args))
        shapes_of_rows.append(shape)
        return row

    made = higher_order.map_impl(step, leaves)
    return tree_unflatten(made, shapes_of_rows[-1])
