"""Checks of the arguments of collectives, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import ReduceOp
from flambeau.distributed._work import Work


def tensor(name: str, parameter: str, value: Any) -> None:
    """Raise TypeError unless an argument is a tensor that can be sent."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name}: Invalid function argument. Expected parameter `{parameter}` of type Tensor, got "
            f"{type(value).__name__} instead."
        )
    if value.layout is not flambeau.strided:
        raise RuntimeError(f"{name}: expected a strided tensor, got one of layout {value.layout}")
    if value.device.type != "cpu":
        raise RuntimeError(
            f"{name}: No backend type associated with device type {value.device.type}: expected cpu"
        )


def tensors(name: str, parameter: str, values: Any) -> None:
    """Raise TypeError unless an argument is a list of tensors."""
    if not isinstance(values, list | tuple):
        raise TypeError(
            f"{name}: Invalid function argument. Expected parameter `{parameter}` of type List[Tensor], got "
            f"{type(values).__name__} instead."
        )
    for value in values:
        tensor(name, parameter, value)


def one_dtype(name: str, *values: Tensor | Sequence[Tensor]) -> None:
    """Raise ValueError unless tensors have one dtype."""
    flat = [t for v in values for t in ([v] if isinstance(v, Tensor) else v)]
    dtypes = list(dict.fromkeys(t.dtype for t in flat))
    if len(dtypes) > 1:
        raise ValueError(
            f"{name}: expected one dtype, got {', '.join(map(str, dtypes))}: Invalid usage of tensors "
            "with different dtypes"
        )


def count(name: str, parameter: str, values: Sequence[Any], size: int) -> None:
    """Raise RuntimeError unless there is one tensor per process."""
    if len(values) != size:
        raise RuntimeError(f"{name}: invalid {parameter}: expected length {size}, got {len(values)}")


def elements(name: str, parameter: str, value: Tensor, expected: int) -> None:
    """Raise RuntimeError unless a tensor has a number of elements."""
    if value.numel() != expected:
        raise RuntimeError(
            f"{name}: expected {parameter} with {expected} elements, got {value.numel()} in shape "
            f"{tuple(value.shape)}"
        )


def shapes(name: str, parameter: str, values: Sequence[Tensor], like: Tensor) -> None:
    """Raise RuntimeError unless tensors have the shape of another one."""
    for value in values:
        if value.shape != like.shape:
            raise RuntimeError(
                f"{name}: invalid tensor size: expected {parameter} of shape {tuple(like.shape)}, got "
                f"{tuple(value.shape)}"
            )


def splits(name: str, parameter: str, sizes: Any, rows: int, parts: int) -> list[int]:
    """Return the sizes of the parts of a tensor. Raises: RuntimeError unless they are its first dimension."""
    given = [] if sizes is None else [int(size) for size in sizes]
    if not given:
        if rows % parts:
            raise RuntimeError(
                f"{name}: expected a first dimension that {parts} divides, got {rows}: Tensor's dim 0 does "
                "not divide equally across group size"
            )
        return []
    if len(given) != parts or sum(given) != rows or min(given) < 0:
        raise RuntimeError(
            f"{name}: expected {parameter} of {parts} parts with the sum {rows}, got {given}: Split sizes "
            "doesn't match total dim 0 size"
        )
    return given


def op(name: str, value: Any, operand: Tensor) -> Any:
    """Return a reduction. Raises: ValueError for one of complex numbers that has no meaning."""
    unordered = (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
    if operand.is_complex() and value in unordered:
        raise ValueError(
            f"{name}: expected a sum or average of complex numbers, got {value}: {name} does not support "
            f"{value} on complex tensors"
        )
    return value


def root(name: str, group: ProcessGroup, rank: int | None, group_rank: int | None, word: str) -> int:
    """Return the rank in the group that one of two arguments names.

    Raises: ValueError for both or neither, or a rank that the group does not have; TypeError for no integer.
    """
    if rank is not None and group_rank is not None:
        raise ValueError(f"{name}: expected {word} or group_{word}, got both: Can't specify both")
    if rank is None and group_rank is None:
        raise ValueError(f"{name}: expected {word} or group_{word}, got neither: Must specify one of them")
    given = group_rank if rank is None else rank
    if not hasattr(given, "__index__") or isinstance(given, bool):
        raise TypeError(f"{name}: expected an int as {word}, got {given!r}")
    if rank is not None:
        if rank not in group.global_ranks:
            raise ValueError(
                f"{name}: expected one of the ranks {list(group.global_ranks)} as {word}, got Global rank "
                f"{rank}, which is not part of group"
            )
        return group.global_ranks.index(rank)
    assert group_rank is not None
    if not 0 <= group_rank < group.size():
        raise ValueError(f"{name}: expected group_{word} from 0 to {group.size() - 1}, got {group_rank}")
    return group_rank


def ended(work: Work, async_op: bool) -> Work | None:
    """Return a work for ``async_op``; wait for it otherwise."""
    if async_op:
        return work
    work.wait()
    return None
