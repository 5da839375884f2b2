"""Functions that take any number of tensors, one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._arguments.checks import require_all_tensors
from flambeau._C import Tensor
from flambeau._object.printing import described
from flambeau._types.size import Size

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "meshgrid",
    "split",
    "unravel_index",
]


def _listed(tensors: tuple[Any, ...]) -> list[Tensor]:
    """The tensors of f(a, b) and of f([a, b])."""
    only = tensors[0] if len(tensors) == 1 else None
    return list(only) if isinstance(only, list | tuple) else list(tensors)


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """Return the shape to which all shapes broadcast.

    Raises: RuntimeError for sizes that differ and are not 1.

    >>> broadcast_shapes((2, 1), (3,))
    flambeau.Size([2, 3])
    """
    rows = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    if any(not isinstance(size, int) for row in rows for size in row):
        raise TypeError(f"broadcast_shapes: expected sizes of type int, got {shapes}")
    result = [1] * max(map(len, rows), default=0)
    for row in rows:
        for place, size in enumerate(row, start=len(result) - len(row)):
            if size < 0:
                raise RuntimeError(f"broadcast_shapes: negative dimension {size}")
            if size != 1 and result[place] not in (1, size):
                raise RuntimeError(
                    f"broadcast_shapes: sizes {size} and {result[place]} "
                    f"do not broadcast at dimension {place - len(result)}"
                )
            result[place] = result[place] if size == 1 else size
    return Size(result)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return views of the tensors, all of the shape to which they broadcast.

    >>> from flambeau import ones
    >>> [t.shape for t in broadcast_tensors(ones(2, 1), ones(3))]
    [flambeau.Size([2, 3]), flambeau.Size([2, 3])]
    """
    given = _listed(tensors)
    require_all_tensors("broadcast_tensors", given)
    shape = given[0].shape if given else Size(())
    try:
        for tensor in given[1:]:
            if tensor.shape != shape:
                shape = broadcast_shapes(shape, tensor.shape)
    except RuntimeError as error:
        shown = ", ".join(map(described, given))
        raise RuntimeError(f"broadcast_tensors: {error}: got {shown}") from None
    return tuple(t if t.shape == shape else t.expand(shape) for t in given)


def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of pieces along a dimension.

    Args:
        tensor: what to cut.
        split_size_or_sections: the size of all pieces (the last may be smaller), or the size of each.
        dim: the dimension.

    >>> from flambeau import arange
    >>> split(arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return tensor.split(split_size_or_sections, dim)


def meshgrid(*tensors: Tensor, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return grids of coordinates: grid k holds tensors[k] along dimension k.

    Args:
        tensors: vectors, or numbers.
        indexing: "ij", or "xy" to exchange the first two dimensions. Default: "ij", with a warning.
    """
    if indexing is None:
        warnings.warn(
            "meshgrid: the argument indexing will be required; it is 'ij' by default",
            UserWarning,
            stacklevel=2,
        )
        indexing = "ij"
    return tuple(_C._functions.meshgrid(_listed(tensors), indexing=indexing))


def block_diag(*tensors: Tensor) -> Tensor:
    """Return a matrix with the given ones along its diagonal, zero elsewhere."""
    return _C._functions.block_diag(_listed(tensors))


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Return a row for each way to take one element of each vector; a single vector stays as it is."""
    given = _listed(tensors)
    for place, vector in enumerate(given):
        if not isinstance(vector, _C.Tensor):
            raise TypeError(
                f"cartesian_prod: expected Tensor as element {place}, got {type(vector).__name__}"
            )
        if vector.dim() != 1:
            raise RuntimeError(f"cartesian_prod: expected vectors, got shape {list(vector.shape)}")
    if len(given) == 1:
        return given[0]
    return _C._functions.stack([grid.reshape(-1) for grid in meshgrid(*given, indexing="ij")], -1)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Return the coordinates of elements from their places in row-major order.

    Args:
        indices: places in a tensor of `shape`, integers that are not negative.
        shape: the tensor's shape.
    Raises: ValueError for a negative size or a place beyond the tensor, TypeError for other dtypes.

    >>> from flambeau import tensor
    >>> unravel_index(tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    if indices.is_complex() or indices.is_floating_point() or indices.dtype is _C.bool:
        raise TypeError(f"unravel_index: expected indices of an integer dtype, got {indices.dtype}")
    if isinstance(shape, Tensor) or not (isinstance(shape, int) or all(isinstance(n, int) for n in shape)):
        raise TypeError(f"unravel_index: expected ints as shape, got {type(shape)}")
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index: expected sizes of 0 or more, got {tuple(sizes)}")
    coordinates, step = [], 1
    for n in reversed(sizes):
        coordinates.append((indices // step if n else indices) % (n or 1))
        step *= n
    return tuple(c.to(_C.int64) for c in reversed(coordinates))


def _each(function: str, tensors: tuple[Any, ...], view: Any) -> Any:
    given = _listed(tensors)
    require_all_tensors(function, given)
    found = tuple(map(view, given))
    alone = len(tensors) == 1 and not isinstance(tensors[0], list | tuple)
    return found[0] if alone else found


def atleast_1d(*tensors: Tensor) -> Any:
    """Return the tensors, those of no dimension with one."""
    return _each("atleast_1d", tensors, lambda t: t.reshape(1) if t.dim() == 0 else t)


def atleast_2d(*tensors: Tensor) -> Any:
    """Return the tensors with at least two dimensions; a vector becomes a row."""
    return _each("atleast_2d", tensors, lambda t: t.reshape(1, -1) if t.dim() < 2 else t)


def atleast_3d(*tensors: Tensor) -> Any:
    """Return the tensors with at least three dimensions: a vector as (1, n, 1), a matrix as (m, n, 1)."""
    return _each(
        "atleast_3d",
        tensors,
        lambda t: t.reshape(1, -1, 1) if t.dim() < 2 else t.unsqueeze(-1) if t.dim() == 2 else t,
    )


# Written elsewhere, and known under this module's name as well.
_ELSEWHERE = frozenset(
    (
        "cdist chain_matmul einsum istft lu norm pca_lowrank stft svd_lowrank tensordot "
        "unique unique_consecutive"
    ).split()
)
__all__ += sorted(_ELSEWHERE)


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        import flambeau

        return getattr(flambeau, name)
    raise AttributeError(f"module 'flambeau.functional' has no attribute '{name}'")
