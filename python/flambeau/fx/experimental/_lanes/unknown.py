"""Results that depend on elements: operators on fake tensors give numbers and sizes that are new symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._object.subclass import DisableTorchDispatch
from flambeau._subclasses._errors import DataDependentOutputException, DynamicOutputShapeException
from flambeau.fx.experimental._sizes.numbers import SymInt


def answer(
    program: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: RuntimeError
) -> Any:
    """Return the result of an operator in the current lane.

    Args:
        program: the program.
        func: the overload.
        args: its arguments by position.
        kwargs: its arguments by name.
        error: the reason why fake tensors have no result; raised if the operator has no rule here.
    """
    rule = _RULES.get(func.overloadpacket.__name__)
    if rule is None or kwargs.get("size") is not None or kwargs.get("out") is not None:
        raise error
    return rule(program, func, args)


def _symbol(program: Any, make: Callable[[], Any]) -> Any:
    """Return the number of a new symbol in the current lane."""
    lane, call = program.current
    place = call.unknown_count
    call.unknown_count += 1
    if place == len(call.unknown):
        symbol = make()
        call.unknown.append(symbol)
        program.sampler.note(symbol)
        for other in program.lanes:
            other.values[symbol] = program.sampler.default(other.index, symbol)
    symbol = call.unknown[place]
    if symbol not in lane.values:
        lane.values[symbol] = program.sampler.default(max(lane.index, 0), symbol)
    return lane.values[symbol]


def _size(program: Any) -> int:
    def make() -> Any:
        made: SymInt = program.env.create_unbacked_symint()
        made.node.note_size()
        return made.node.expr

    return int(_symbol(program, make))


def _empty(program: Any, size: tuple[int, ...], dtype: Any, device: Any) -> Any:
    with DisableTorchDispatch():
        elem = flambeau.empty(size, dtype=dtype, device="meta")
    return program.mode._wrapped(elem, device)


def _scalar(program: Any, func: Any, args: tuple[Any, ...]) -> Any:
    env, dtype = program.env, args[0].dtype
    if dtype.is_complex:
        raise DataDependentOutputException(func)
    if dtype.is_floating_point:
        return float(_symbol(program, lambda: env.create_unbacked_symfloat().node.expr))
    if dtype == flambeau.bool:  # an integer, because lanes may have different truths
        return int(_symbol(program, lambda: env._unbacked(0, 1, 1)))
    return int(_symbol(program, lambda: env.create_unbacked_symint().node.expr))


def _nonzero(program: Any, func: Any, args: tuple[Any, ...]) -> Any:
    given = args[0]
    return _empty(program, (_size(program), given.dim()), flambeau.int64, given.device)


def _index_positions(program: Any, func: Any, args: tuple[Any, ...]) -> Any:
    """Return indices with positions in the place of masks; all masks of a call select equally many."""
    given, indices = args[0], []
    if not any(i is not None and i.dtype in (flambeau.bool, flambeau.uint8) for i in args[1]):
        raise DynamicOutputShapeException(func)
    count = _size(program)
    dim = 0
    for index in args[1]:
        if index is None or index.dtype not in (flambeau.bool, flambeau.uint8):
            indices.append(index)
            dim += 1
            continue
        masked = given.shape[dim : dim + index.dim()]
        if tuple(index.shape) != tuple(masked):
            raise IndexError(
                f"index: expected a mask of the shape of the indexed tensor ({tuple(masked)}), "
                f"got {tuple(index.shape)}"
            )
        indices += [_empty(program, (count,), flambeau.int64, index.device) for _ in masked]
        dim += index.dim()
    return indices


def _repeat_interleave(program: Any, func: Any, args: tuple[Any, ...]) -> Any:
    return _empty(program, (_size(program),), args[0].dtype, args[0].device)


_RULES: dict[str, Callable[..., Any]] = {
    "_local_scalar_dense": _scalar,
    "nonzero": _nonzero,
    "_index_positions": _index_positions,
    "repeat_interleave": _repeat_interleave,
}
