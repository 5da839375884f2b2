"""Loops over functions of flat tuples of tensors: what the public loops call, and the nodes of graphs.

A function takes its tensors one by one, and then the tensors of `additional_inputs`, which it would
otherwise read from its closure. It returns a list or tuple of tensors. Results are new tensors: a state that
is an input of the loop, or shares memory with one, is copied.

In Python because they take functions. Calls `select` and `stack`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.utils._pytree import tree_flatten, tree_unflatten

Function = Callable[..., Any]


def truth(name: str, value: Any) -> bool:
    """Return the value of a condition.

    Args:
        name: the operator, for errors.
        value: a bool, a number, or a tensor of one element.
    Raises: RuntimeError for anything else.
    """
    if isinstance(value, Tensor) and value.numel() != 1:
        raise RuntimeError(f"{name}: expected a condition of one element, got shape {list(value.shape)}")
    if not isinstance(value, bool | int | float | Tensor):
        raise RuntimeError(f"{name}: expected a bool or a tensor, got {type(value).__name__}")
    return bool(value)


def is_unknown(value: Any) -> bool:
    """Whether a condition is a fake tensor of unknown elements, and no graph is being recorded."""
    if not isinstance(value, Tensor) or not flambeau._C._has_no_memory(value):
        return False
    from flambeau._subclasses.fake_tensor import FakeTensor
    from flambeau.fx.experimental.proxy_tensor import get_proxy_mode

    is_fake = isinstance(value, FakeTensor) and value.constant is None
    return is_fake and value.numel() == 1 and get_proxy_mode() is None


def either(name: str, one: Any, other: Any) -> Any:
    """Return what stands for one of two results, when the condition that decides is unknown.

    Args:
        name: the operator, for errors.
        one, other: trees of the same structure, whose tensors have the same dtypes, devices and shapes.
    """
    (first, structure), (second, got) = tree_flatten(one), tree_flatten(other)
    if got != structure or list(map(facts, first)) != list(map(facts, second)):
        refuse(
            f"{name}: expected results of both branches with the same structure and metadata, got "
            f"{list(map(facts, first))} and {list(map(facts, second))}"
        )
    kept = [b if isinstance(b, Tensor) and b.requires_grad else a for a, b in zip(first, second, strict=True)]
    return tree_unflatten(kept, structure)


def facts(leaf: Any) -> Any:
    """Return what a carried value must keep from one step to the next."""
    return (leaf.dtype, leaf.device, tuple(leaf.shape)) if isinstance(leaf, Tensor) else type(leaf)


def check_facts(name: str, before: Iterable[Any], after: Iterable[Any], step: int) -> None:
    """Raise UncapturedHigherOrderOpError if a carried value has changed its dtype, device or shape."""
    for one, other in zip(before, after, strict=True):
        if facts(one) != facts(other):
            refuse(
                f"{name}: expected init and carry to have the same metadata, got {facts(one)} and "
                f"{facts(other)} in step {step}"
            )


def refuse(message: str) -> None:
    """Raise the error of functions whose results no loop can carry."""
    from flambeau._dynamo.exc import UncapturedHigherOrderOpError

    raise UncapturedHigherOrderOpError(message)


def shares_memory(one: Any, other: Any) -> bool:
    """Whether two values are one tensor, or tensors in one storage."""
    if one is other:
        return isinstance(one, Tensor)
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return False
    if not one.layout == other.layout == flambeau.strided:
        return False
    if flambeau._C._wrapper_level(one) or flambeau._C._wrapper_level(other):  # they may stand for a batch
        return _base(one) is _base(other)
    return one.untyped_storage() is other.untyped_storage()


def _base(tensor: Tensor) -> Tensor | None:
    return tensor._base if tensor._is_view() else tensor


def _owned(values: Iterable[Any], inputs: Sequence[Any]) -> list[Any]:
    """Return values, with copies of those that share memory with an input."""
    return [v.clone() if any(shares_memory(v, x) for x in inputs) else v for v in values]


def while_loop(
    cond_fn: Function,
    body_fn: Function,
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
) -> list[Any]:
    """Call `body_fn` on its own results as long as `cond_fn` of them holds.

    Args:
        cond_fn: returns the condition.
        body_fn: returns as many values as are carried.
        carried_inputs: the first values.
        additional_inputs: further arguments of both.
    Returns: the last values.
    """
    values, step = list(carried_inputs), 0
    while True:
        goes_on = _single(cond_fn(*values, *additional_inputs))
        if is_unknown(goes_on):  # any number of trips gives tensors like these
            found = list(body_fn(*values, *additional_inputs))
            check_facts("while_loop", values, found, step)
            return _owned(found, carried_inputs)
        if not truth("while_loop", goes_on):
            break
        found = list(body_fn(*values, *additional_inputs))
        check_facts("while_loop", values, found, step)
        values, step = found, step + 1
    return _owned(values, carried_inputs)


def _single(value: Any) -> Any:
    """The value of a graph, which returns a tuple of one."""
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else value


def scan(
    combine_fn: Function,
    init: Sequence[Any],
    xs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
    dim: int = 0,
    reverse: bool = False,
) -> list[Any]:
    """Carry a state along `dim`.

    Args:
        combine_fn: takes the state and slices; returns the next state, then the results of the step.
        init: the first state.
        xs: tensors of one size, other than 0, in `dim`.
        additional_inputs: further arguments of `combine_fn`.
        dim: the dimension, not negative.
        reverse: whether to begin at the end.
    Returns: the last state, then the stacked results; None stays None.
    """
    carry, rows = list(init), []
    for i in _order(xs[0].shape[dim], reverse):
        found = combine_fn(*carry, *(x.select(dim, i) for x in xs), *additional_inputs)
        check_facts("scan", init, found[: len(init)], i)
        carry = list(found[: len(init)])
        rows.append(found[len(init) :])
    return [*_owned(carry, [*init, *xs]), *stacked("scan", rows[::-1] if reverse else rows, dim)]


def _order(length: int, reverse: bool) -> range:
    return range(length - 1, -1, -1) if reverse else range(length)


def stacked(name: str, rows: list[Any], dim: int = 0) -> list[Any]:
    """Return the columns of rows of tensors, stacked in `dim` or the last dimension that they have.

    Args:
        name: the operator, for errors.
        rows: the results of each step, as many in each.
        dim: the dimension.
    """
    if any(len(row) != len(rows[0]) for row in rows):
        refuse(f"{name}: expected results with the same structure in each step")
    columns = list(zip(*rows, strict=True))
    for column in columns:
        if not all(isinstance(y, Tensor) for y in column) and any(y is not None for y in column):
            refuse(f"{name}: expected tensors as results, got {type(column[0]).__name__}")
    ends = [None if c[0] is None else min(dim, c[0].dim()) for c in columns]
    return [None if end is None else flambeau.stack(c, end) for c, end in zip(columns, ends, strict=True)]


def map_impl(f: Function, xs: Sequence[Any], pos_args: Sequence[Any] = ()) -> list[Any]:
    """Call a function on each slice of the first dimension, and stack the results.

    Args:
        f: takes slices, then `pos_args`.
        xs: tensors of one size, other than 0, in the first dimension.
        pos_args: further arguments, the same for each slice.
    """
    return stacked(
        "map", [list(f(*part, *pos_args)) for part in zip(*(x.unbind(0) for x in xs), strict=True)]
    )


def associative_scan(
    combine_fn: Function,
    xs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
    dim: int = 0,
    reverse: bool = False,
) -> list[Any]:
    """Cumulate slices with an associative function.

    Args:
        combine_fn: takes the slices of what precedes, then those of one place; returns slices.
        xs: tensors of one size, other than 0, in `dim`.
        additional_inputs: further arguments of `combine_fn`.
        dim: the dimension.
        reverse: whether to begin at the end.
    """
    rows: list[list[Any]] = []
    for i in _order(xs[0].shape[dim], reverse):
        slices = [x.select(dim, i) for x in xs]
        row = list(combine_fn(*rows[-1], *slices, *additional_inputs)) if rows else slices
        check_facts("associative_scan", slices, row, i)
        rows.append(row)
    columns = zip(*(rows[::-1] if reverse else rows), strict=True)
    ends = (dim if dim >= 0 else dim + x.dim() for x in xs)
    return [flambeau.stack(c, end) for c, end in zip(columns, ends, strict=True)]


def drawn(operator: Function, arguments: tuple[Any, ...]) -> list[Any]:
    """Run a loop of a graph that draws random numbers.

    Args:
        operator: a function of this module.
        arguments: its arguments.
    Returns: the results, and the state of the generator before them, as a tensor.
    """
    state = flambeau.get_rng_state()
    return [*operator(*arguments), state]


def gradients(
    operator: Function,
    arguments: tuple[Any, ...],
    tangents: Sequence[Any],
    places: Sequence[int],
    wanted: Sequence[bool],
    state: Tensor | None = None,
) -> list[Any]:
    """Run a loop of a graph once more, and return the gradients of its tensors.

    Args:
        operator: a function of this module.
        arguments: what it was called with: functions, tuples of tensors, numbers.
        tangents: the gradients of those results that have one.
        places: which these are.
        wanted: for each tensor of `arguments`, in order, whether its gradient is needed.
        state: the state of the generator with which the loop draws its numbers again; afterwards the
            generator goes on from its present one. None if the loop draws none.
    Returns: the gradients that are wanted; zeros where no result depends on a tensor.
    """
    wishes = iter(wanted)
    leaves: list[Any] = []

    def given(argument: Any) -> Any:
        if not isinstance(argument, tuple | list):
            return argument
        made = [x.detach().requires_grad_(next(wishes)) for x in argument]
        leaves.extend(x for x in made if x.requires_grad)
        return made

    with flambeau.enable_grad(), _generator_at(state):
        results = operator(*map(given, arguments))
        pairs = [(results[i], t) for i, t in zip(places, tangents, strict=True) if results[i].requires_grad]
        if not pairs:
            return [flambeau.zeros_like(leaf) for leaf in leaves]
        ends, starts = zip(*pairs, strict=True)
        found = flambeau.autograd.grad(ends, leaves, starts, allow_unused=True)
    return [_placed(g, leaf, tangents) for g, leaf in zip(found, leaves, strict=True)]


def called(function: Function, operands: Sequence[Any]) -> list[Any]:
    """Call a function of a graph; `gradients` of this call compute what `function` computes a second time.

    Args:
        function: takes the operands.
        operands: the tensors.
    """
    return list(function(*operands))


def checkpointed(function: Function, operands: Sequence[Any], preserve_rng_state: bool) -> list[Any]:
    """Call a function of a graph under `utils.checkpoint.checkpoint`.

    Args:
        function: takes the operands.
        operands: the tensors.
        preserve_rng_state: as for `checkpoint`.
    """
    from flambeau.utils.checkpoint import checkpoint

    found = checkpoint(function, *operands, use_reentrant=False, preserve_rng_state=preserve_rng_state)
    return list(found)


@contextmanager
def _generator_at(state: Tensor | None) -> Iterator[None]:
    if state is None:
        yield
        return
    present = flambeau.get_rng_state()
    flambeau.set_rng_state(state)
    try:
        yield
    finally:
        flambeau.set_rng_state(present)


def _placed(gradient: Any, leaf: Any, others: Sequence[Any]) -> Any:
    """Return a gradient in memory of its own, in the strides that graphs count on."""
    made = flambeau.empty_like(leaf.detach())
    if gradient is None:
        return made.zero_()
    is_own = gradient.stride() == made.stride() and not any(shares_memory(gradient, t) for t in others)
    return gradient if is_own else made.copy_(gradient)
