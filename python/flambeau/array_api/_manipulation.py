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
    """Expand arrays to their common shape.

    Args:
        *arrays: the arrays.
    Returns: views of the arrays.

    Example:
        >>> [x.shape for x in flambeau.array_api.broadcast_arrays(flambeau.ones(2, 1), flambeau.ones(3))]
        [flambeau.Size([2, 3]), flambeau.Size([2, 3])]
    """
    return list(_fb.broadcast_tensors(*arrays)) if arrays else []


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Join arrays along an existing axis.

    Args:
        arrays: the arrays, of the same shape except along `axis`.
        axis: the axis; None joins the flattened arrays.
    Returns: an array of the promoted dtype.

    Example:
        >>> flambeau.array_api.concat([flambeau.tensor([1]), flambeau.tensor([2.5])])
        tensor([1.0000, 2.5000])
    """
    common = result_type(*arrays)
    parts = [a.to(common) for a in arrays]
    return _fb.cat([p.reshape(-1) for p in parts], 0) if axis is None else _fb.cat(parts, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Stack arrays along a new axis.

    Args:
        arrays: the arrays, of one shape.
        axis: the place of the new axis.
    Returns: an array of the promoted dtype with one dimension more.

    Example:
        >>> flambeau.array_api.stack([flambeau.tensor([1, 2]), flambeau.tensor([3, 4])], axis=1)
        tensor([[1, 3],
                [2, 4]])
    """
    common = result_type(*arrays)
    return _fb.stack([a.to(common) for a in arrays], axis)


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    """Add an axis of size 1.

    Args:
        x: the array.
        axis: the place of the new axis.
    Returns: a view of `x`.

    Example:
        >>> flambeau.array_api.expand_dims(flambeau.ones(3), axis=1).shape
        flambeau.Size([3, 1])
    """
    return _fb.unsqueeze(x, axis)


def flip(x: Tensor, /, *, axis: Axes = None) -> Tensor:
    """Copy an array with its elements in reverse order along axes.

    Args:
        x: the array.
        axis: the axis or axes; None means all of them.
    Returns: an array of the shape of `x`.

    Example:
        >>> flambeau.array_api.flip(flambeau.tensor([1, 2, 3]))
        tensor([3, 2, 1])
    """
    return _fb.flip(x, all_dims(x, axis))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Rearrange the axes of an array.

    Args:
        x: the array.
        axes: the axes of `x` in the order of the result.
    Returns: a view of `x`.

    Example:
        >>> flambeau.array_api.permute_dims(flambeau.ones(2, 3), (1, 0)).shape
        flambeau.Size([3, 2])
    """
    return _fb.permute(x, axes)


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Copy an array with each element repeated.

    Args:
        x: the array.
        repeats: how often: a number, or an array of a number for each place along `axis`.
        axis: the axis; None repeats the elements of the flattened array.
    Returns: the repeated elements.

    Example:
        >>> flambeau.array_api.repeat(flambeau.tensor([1, 2]), 2)
        tensor([1, 1, 2, 2])
    """
    return _fb.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: builtins.bool | None = None) -> Tensor:
    """Give an array another shape.

    Args:
        x: the array.
        shape: the sizes; one of them may be -1.
        copy: True always copies; False never does; None copies only if no view has the shape.
    Returns: an array of `shape`.

    Example:
        >>> flambeau.array_api.reshape(flambeau.arange(4), (2, -1))
        tensor([[0, 1],
                [2, 3]])
    """
    if copy is False:
        return x.view(shape)
    return x.clone().reshape(shape) if copy else x.reshape(shape)


def roll(x: Tensor, /, shift: Any, *, axis: Axes = None) -> Tensor:
    """Shift the elements along axes; elements that leave an end enter at the other one.

    Args:
        x: the array.
        shift: the number of places, or one for each axis.
        axis: the axis or axes; None shifts the flattened array.
    Returns: an array of the shape of `x`.

    Example:
        >>> flambeau.array_api.roll(flambeau.tensor([1, 2, 3]), 1)
        tensor([3, 1, 2])
    """
    return _fb.roll(x, shift, () if axis is None else axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Remove axes of size 1.

    Args:
        x: the array.
        axis: the axis or axes.
    Returns: a view of `x`.
    Raises: ValueError if an axis has another size.

    Example:
        >>> flambeau.array_api.squeeze(flambeau.ones(1, 3, 1), 0).shape
        flambeau.Size([3, 1])
    """
    for dim in all_dims(x, axis):
        if x.shape[dim] != 1:
            raise ValueError(f"squeeze: expected size 1 along axis {dim}, got shape {tuple(x.shape)}")
    return _fb.squeeze(x, axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Split an array into its slices along an axis.

    Args:
        x: the array.
        axis: the axis.
    Returns: views without the axis.

    Example:
        >>> flambeau.array_api.unstack(flambeau.tensor([[1, 2], [3, 4]]))
        (tensor([1, 2]), tensor([3, 4]))
    """
    return tuple(_fb.unbind(x, axis))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Exchange the last two axes.

    Args:
        x: the matrices, of shape (..., m, n).
    Returns: a view of shape (..., n, m).

    Example:
        >>> flambeau.array_api.matrix_transpose(flambeau.ones(2, 3)).shape
        flambeau.Size([3, 2])
    """
    return x.mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Sum products over pairs of axes.

    Args:
        x1: the first array.
        x2: the second array.
        axes: how many of the last axes of `x1` are paired with the first of `x2`, or two lists of axes.
    Returns: an array with the other axes of `x1`, then those of `x2`.

    Example:
        >>> flambeau.array_api.tensordot(flambeau.ones(2, 3), flambeau.ones(3), axes=1)
        tensor([3., 3.])
    """
    return _fb.tensordot(x1, x2, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sum products along an axis, with the conjugates of the first array.

    Args:
        x1: the first array.
        x2: the second array, of a shape that broadcasts with that of `x1`.
        axis: the axis.
    Returns: an array of the promoted dtype without the axis.

    Example:
        >>> flambeau.array_api.vecdot(flambeau.tensor([1.0, 2.0]), flambeau.tensor([3.0, 4.0]))
        tensor(11.)
    """
    first, second = (x.to(result_type(x1, x2)) for x in (x1, x2))
    return sum(_fb.conj_physical(first) * second, axis=axis, dtype=first.dtype)


# --- searching, sorting, sets ----


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Select slices along an axis by index.

    Args:
        x: the array.
        indices: the indices, a vector.
        axis: the axis; None is allowed for vectors.
    Returns: the slices.

    Example:
        >>> flambeau.array_api.take(flambeau.tensor([5, 6, 7]), flambeau.tensor([2, 0]))
        tensor([7, 5])
    """
    return _fb.index_select(x, one_axis("take", x, axis), indices)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Select elements along an axis by index; the other axes broadcast.

    Args:
        x: the array.
        indices: the indices, with as many dimensions as `x`.
        axis: the axis.
    Returns: the elements.

    Example:
        >>> flambeau.array_api.take_along_axis(flambeau.tensor([[5, 6]]), flambeau.tensor([[1, 0]]))
        tensor([[6, 5]])
    """
    return _fb.take_along_dim(x, indices.to(int64), axis)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Find the indices of the elements that are not 0.

    Args:
        x: the array.
    Returns: a vector of indices for each axis.

    Example:
        >>> flambeau.array_api.nonzero(flambeau.tensor([0, 3, 0, 4]))
        (tensor([1, 3]),)
    """
    return tuple(_fb.nonzero(x).unbind(1))


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Find where elements would be inserted into a sorted vector.

    Args:
        x1: the sorted vector.
        x2: the elements.
        side: "left" for the first place, "right" for the last one.
        sorter: the indices that sort `x1`; None if it is sorted.
    Returns: indices of the shape of `x2`.

    Example:
        >>> flambeau.array_api.searchsorted(flambeau.tensor([1, 3, 5]), flambeau.tensor([3, 4]))
        tensor([1, 2])
    """
    return _fb.searchsorted(x1, x2, side=side, sorter=sorter)


def sort(
    x: Tensor, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True
) -> Tensor:
    """Copy an array with its elements sorted along an axis.

    Args:
        x: the array.
        axis: the axis.
        descending: whether the largest element comes first.
        stable: whether equal elements keep their order.
    Returns: an array of the shape of `x`.

    Example:
        >>> flambeau.array_api.sort(flambeau.tensor([3, 1, 2]), descending=True)
        tensor([3, 2, 1])
    """
    return _fb.sort(x, dim=axis, descending=descending, stable=stable)[0]


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True
) -> Tensor:
    """Compute the indices that sort an array along an axis.

    Args:
        x: the array.
        axis: the axis.
        descending: whether the index of the largest element comes first.
        stable: whether equal elements keep their order.
    Returns: indices of the shape of `x`.

    Example:
        >>> flambeau.array_api.argsort(flambeau.tensor([3, 1, 2]))
        tensor([1, 2, 0])
    """
    return _fb.sort(x, dim=axis, descending=descending, stable=stable)[1]


class UniqueAll(NamedTuple):
    """Result of `unique_all`.

    Args:
        values: the distinct values in ascending order.
        indices: where each value occurs first in the flattened array.
        inverse_indices: for each element the index of its value.
        counts: how often each value occurs.

    Example:
        >>> flambeau.array_api.unique_all(flambeau.tensor([4, 2, 4])).values
        tensor([2, 4])
    """

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Result of `unique_counts`.

    Args:
        values: the distinct values in ascending order.
        counts: how often each value occurs.

    Example:
        >>> flambeau.array_api.unique_counts(flambeau.tensor([4, 2, 4])).values
        tensor([2, 4])
    """

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Result of `unique_inverse`.

    Args:
        values: the distinct values in ascending order.
        inverse_indices: for each element the index of its value.

    Example:
        >>> flambeau.array_api.unique_inverse(flambeau.tensor([4, 2, 4])).values
        tensor([2, 4])
    """

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """Find the distinct values, with their first indices, the inverse and the counts.

    Args:
        x: the array.
    Returns: the values in ascending order, the index of each one's first occurrence in the flattened array,
        the index of each element's value, and the counts.

    Example:
        >>> flambeau.array_api.unique_all(flambeau.tensor([4, 2, 4])).indices
        tensor([1, 0])
    """
    values, inverse, counts = _fb.unique(x, return_inverse=True, return_counts=True)
    flat = inverse.reshape(-1)
    first = _fb.full((values.numel(),), x.numel(), dtype=int64)
    first = first.scatter_reduce(0, flat, _fb.arange(x.numel()), "amin")
    return UniqueAll(values, first, inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Find the distinct values and their counts.

    Args:
        x: the array.
    Returns: the values in ascending order, and how often each one occurs.

    Example:
        >>> flambeau.array_api.unique_counts(flambeau.tensor([4, 2, 4])).counts
        tensor([1, 2])
    """
    return UniqueCounts(*_fb.unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Find the distinct values and the index of each element's value.

    Args:
        x: the array.
    Returns: the values in ascending order, and indices of the shape of `x`.

    Example:
        >>> flambeau.array_api.unique_inverse(flambeau.tensor([4, 2, 4])).inverse_indices
        tensor([1, 0, 1])
    """
    return UniqueInverse(*_fb.unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """Find the distinct values.

    Args:
        x: the array.
    Returns: the values in ascending order.

    Example:
        >>> flambeau.array_api.unique_values(flambeau.tensor([4, 2, 4]))
        tensor([2, 4])
    """
    return _fb.unique(x)
