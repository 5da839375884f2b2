"""Functions that move, find, sort and count elements."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple

import flambeau as _fb
from flambeau import int64
from flambeau._C import Tensor
from flambeau.array_api._dtypes import result_type
from flambeau.array_api._reductions import Axes, all_dims, one_axis, sum


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Return views of all arrays in their common shape."""
    return list(_fb.broadcast_tensors(*arrays)) if arrays else []


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Join along an existing axis; None: flattened first."""
    common = result_type(*arrays)
    parts = [a.to(common) for a in arrays]
    return _fb.cat([p.reshape(-1) for p in parts], 0) if axis is None else _fb.cat(parts, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Join along a new axis."""
    common = result_type(*arrays)
    return _fb.stack([a.to(common) for a in arrays], axis)


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    """Return a view with a new axis of size 1."""
    return _fb.unsqueeze(x, axis)


def flip(x: Tensor, /, *, axis: Axes = None) -> Tensor:
    """Return `x` in reverse order along `axis`."""
    return _fb.flip(x, all_dims(x, axis))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Return a view with its axes in another order."""
    return _fb.permute(x, axes)


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Return `x` with each element repeated."""
    return _fb.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: builtins.bool | None = None) -> Tensor:
    """Return `x` in another shape: a view where that is possible unless `copy`; never a copy for False."""
    if copy is False:
        return x.view(shape)
    return x.clone().reshape(shape) if copy else x.reshape(shape)


def roll(x: Tensor, /, shift: Any, *, axis: Axes = None) -> Tensor:
    """Return `x` with elements moved along `axis`, those that leave coming back at the other end."""
    return _fb.roll(x, shift, () if axis is None else axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Return a view without the given axes, which must have size 1.

    Raises: ValueError for a larger axis.
    """
    for dim in all_dims(x, axis):
        if x.shape[dim] != 1:
            raise ValueError(f"squeeze: expected size 1 along axis {dim}, got shape {tuple(x.shape)}")
    return _fb.squeeze(x, axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along `axis`."""
    return tuple(_fb.unbind(x, axis))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Return a view with the last two axes exchanged."""
    return x.mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Return products summed over pairs of axes: the last of `x1` with the first of `x2`, or those named."""
    return _fb.tensordot(x1, x2, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return products summed along `axis`, `x1` conjugated."""
    first, second = (x.to(result_type(x1, x2)) for x in (x1, x2))
    return sum(_fb.conj_physical(first) * second, axis=axis, dtype=first.dtype)


# --- searching, sorting, sets ----


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return the slices along `axis` that `indices` name."""
    return _fb.index_select(x, one_axis("take", x, axis), indices)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return elements by index along `axis`; the other axes broadcast."""
    return _fb.take_along_dim(x, indices.to(int64), axis)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the indices of elements that are not 0, one tensor for each axis."""
    return tuple(_fb.nonzero(x).unbind(1))


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Return where `x2` would go into the ordered vector `x1`."""
    return _fb.searchsorted(x1, x2, side=side, sorter=sorter)


def sort(
    x: Tensor, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True
) -> Tensor:
    """Return `x` in order along `axis`."""
    return _fb.sort(x, dim=axis, descending=descending, stable=stable)[0]


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True
) -> Tensor:
    """Return the indices that put `x` in order along `axis`."""
    return _fb.sort(x, dim=axis, descending=descending, stable=stable)[1]


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """Return distinct values, where each is first, where each element's value is, and how often it occurs."""
    values, inverse, counts = _fb.unique(x, return_inverse=True, return_counts=True)
    flat = inverse.reshape(-1)
    first = _fb.full((values.numel(),), x.numel(), dtype=int64)
    first = first.scatter_reduce(0, flat, _fb.arange(x.numel()), "amin")
    return UniqueAll(values, first, inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return distinct values and how often each occurs."""
    return UniqueCounts(*_fb.unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return distinct values and for each element the index of its value."""
    return UniqueInverse(*_fb.unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """Return distinct values."""
    return _fb.unique(x)
