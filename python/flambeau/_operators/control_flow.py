"""Branches, loops and scans as functions: what programs write so that a compiler can see them.

They run at once here, one call of the given function after the other, and are differentiable as what they
call is.

In Python because they take functions. Calls `select` and `stack`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["associative_scan", "cond", "while_loop"]


def _truth(name: str, value: Any) -> bool:
    """Return the value of a condition; RuntimeError unless it is a bool, a number or has one element."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise RuntimeError(f"{name}: expected a condition of one element, got shape {list(value.shape)}")
    if not isinstance(value, bool | int | float | Tensor):
        raise RuntimeError(f"{name}: expected a bool or a tensor, got {type(value).__name__}")
    return bool(value)


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """Return ``true_fn(*operands)`` if `pred` holds, else ``false_fn(*operands)``.

    Args:
        pred: a bool, or a tensor of one element.
        true_fn: is called if it holds.
        false_fn: is called if it does not.
        operands: a tuple or list of arguments. Default: none.

    >>> import flambeau as fb
    >>> cond(fb.tensor(True), fb.neg, fb.abs, (fb.tensor([1.0]),))
    tensor([-1.])
    """
    if not (callable(true_fn) and callable(false_fn)):
        raise RuntimeError("cond: expected callables as branches")
    if not isinstance(operands, tuple | list):
        raise RuntimeError(f"cond: expected a tuple or list of operands, got {type(operands).__name__}")
    return (true_fn if _truth("cond", pred) else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """Call `body_fn` on its own results as long as `cond_fn` of them holds.

    Args:
        cond_fn: returns whether the loop goes on, as a bool or a tensor of one element.
        body_fn: returns as many values as it takes.
        carried_inputs: a tuple or list with the first values.

    Returns:
        The last values, as a tuple.

    >>> import flambeau as fb
    >>> while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, 2 * x), (fb.tensor(0), fb.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    if not (callable(cond_fn) and callable(body_fn)):
        raise RuntimeError("while_loop: expected callables as condition and body")
    if not isinstance(carried_inputs, tuple | list):
        raise RuntimeError(
            f"while_loop: expected a tuple or list of inputs, got {type(carried_inputs).__name__}"
        )
    values = tuple(carried_inputs)
    while _truth("while_loop", cond_fn(*values)):
        found = body_fn(*values)
        found = (found,) if isinstance(found, Tensor) else tuple(found)
        if len(found) != len(values):
            raise RuntimeError(
                f"while_loop: expected {len(values)} results of the body, one per input, got {len(found)}"
            )
        values = found
    return values


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
        raise ValueError("associative_scan: expected tensors of at least 1 dimension")
    length = leaves[0].shape[dim]
    if length == 0 or any(x.shape[dim] != length for x in leaves):
        raise ValueError(f"associative_scan: expected equal sizes in dim {dim}, other than 0")
    last: Any = None
    rows: list[list[Tensor]] = []
    for i in range(length - 1, -1, -1) if reverse else range(length):
        slices = tree_unflatten([x.select(dim, i) for x in leaves], spec)
        last = slices if last is None else combine_fn(last, slices)
        rows.append(tree_flatten(last)[0])
    ordered = rows[::-1] if reverse else rows
    columns = zip(*ordered, strict=True)
    ends = (dim if dim >= 0 else dim + x.dim() for x in leaves)
    return tree_unflatten([flambeau.stack(c, end) for c, end in zip(columns, ends, strict=True)], spec)
