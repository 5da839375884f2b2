"""Functions that take any number of tensors as separate arguments."""

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

    Args:
        *shapes: sequences of sizes; a number stands for a shape of one dimension.
    Returns: a Size with as many dimensions as the longest shape.
    Raises: RuntimeError for negative sizes, and for sizes that differ and are not 1. TypeError for sizes that
        are not of type int.

    Example:
        >>> tuple(flambeau.functional.broadcast_shapes((2, 1), (3,)))
        (2, 3)
    """
    rows = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    if any(not isinstance(size, int) for row in rows for size in row):
        raise TypeError(f"broadcast_shapes: expected sizes of type int, got {shapes}")
    result = [1] * max(map(len, rows), default=0)
    for row in rows:
        for place, size in enumerate(row, start=len(result) - len(row)):
            if size < 0:
                raise RuntimeError(
                    f"broadcast_shapes: expected sizes of 0 or more, got a negative dimension {size}"
                )
            if size != 1 and result[place] not in (1, size):
                raise RuntimeError(
                    "broadcast_shapes: expected equal sizes or 1 at dimension "
                    f"{place - len(result)}, got {size} and {result[place]}"
                )
            result[place] = result[place] if size == 1 else size
    return Size(result)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return views of the tensors, expanded to the shape to which they all broadcast.

    Args:
        *tensors: tensors, or one list of tensors.
    Returns: a tuple of views; a tensor that has the shape already is returned itself.
    Raises: RuntimeError if the shapes do not broadcast, TypeError for an argument that is not a tensor.

    Example:
        >>> a, b = flambeau.functional.broadcast_tensors(flambeau.ones(2, 1), flambeau.ones(3))
        >>> tuple(a.shape), tuple(b.shape)
        ((2, 3), (2, 3))
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
    """Split a tensor into pieces along a dimension.

    Args:
        tensor: the tensor.
        split_size_or_sections: the size of all pieces (the last may be smaller), or a list with the size of
            each piece.
        dim: the dimension.
    Returns: a tuple of views.
    Raises: RuntimeError for a negative size, and for a list of sizes whose sum is not the size of `dim`.

    Example:
        >>> flambeau.functional.split(flambeau.arange(5), 2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return tensor.split(split_size_or_sections, dim)


def meshgrid(*tensors: Tensor, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return grids of coordinates: grid k contains ``tensors[k]`` along dimension k.

    Args:
        *tensors: n tensors with one dimension or none, or one list of such tensors.
        indexing: "ij", or "xy" to exchange the first two dimensions. Default: "ij", with a warning.
    Returns: a tuple of n views with n dimensions each.
    Raises: RuntimeError for tensors with more dimensions or of different dtypes, and for any other
        `indexing`.

    Example:
        >>> x, y = flambeau.functional.meshgrid(flambeau.arange(2), flambeau.arange(3), indexing="ij")
        >>> x
        tensor([[0, 0, 0],
                [1, 1, 1]])
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
    """Return a matrix with the given matrices along its diagonal and zeros elsewhere.

    Args:
        *tensors: tensors with at most two dimensions, or one list of them; a vector is a row.
    Returns: a matrix whose dtype is the promoted dtype of the tensors.
    Raises: RuntimeError for a tensor with more than two dimensions.

    Example:
        >>> flambeau.functional.block_diag(flambeau.ones(1, 2), flambeau.tensor([[5.0]]))
        tensor([[1., 1., 0.],
                [0., 0., 5.]])
    """
    return _C._functions.block_diag(_listed(tensors))


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Return the Cartesian product of vectors: one row for each way to choose an element of each vector.

    Args:
        *tensors: vectors, or one list of vectors.
    Returns: a matrix with one column per vector; a single vector is returned unchanged.
    Raises: TypeError for an argument that is not a tensor, RuntimeError for a tensor that is not a vector.

    Example:
        >>> flambeau.functional.cartesian_prod(flambeau.tensor([1, 2]), flambeau.tensor([5, 6]))
        tensor([[1, 5],
                [1, 6],
                [2, 5],
                [2, 6]])
    """
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
    """Convert indices into a flattened tensor to coordinates, in row-major order.

    Args:
        indices: integers from 0 to the number of elements minus 1; the range is not checked.
        shape: the shape of the tensor; a number is the size of a vector.
    Returns: a tuple with one tensor of dtype int64 per dimension.
    Raises: ValueError for a negative size. TypeError for indices of any other dtype, and for sizes that are
        not ints.

    Example:
        >>> flambeau.functional.unravel_index(flambeau.tensor([5]), (2, 3))
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
    """Return the tensors with at least one dimension each.

    Args:
        *tensors: tensors, or one list of tensors.
    Returns: the tensor for a single one, otherwise a tuple; a tensor without dimensions gets one of size 1.
    Raises: TypeError for an argument that is not a tensor.

    Example:
        >>> flambeau.functional.atleast_1d(flambeau.tensor(3.0))
        tensor([3.])
    """
    return _each("atleast_1d", tensors, lambda t: t.reshape(1) if t.dim() == 0 else t)


def atleast_2d(*tensors: Tensor) -> Any:
    """Return the tensors with at least two dimensions each; a vector becomes a row.

    Args:
        *tensors: tensors, or one list of tensors.
    Returns: the tensor for a single one, otherwise a tuple.
    Raises: TypeError for an argument that is not a tensor.

    Example:
        >>> flambeau.functional.atleast_2d(flambeau.tensor([3.0, 4.0]))
        tensor([[3., 4.]])
    """
    return _each("atleast_2d", tensors, lambda t: t.reshape(1, -1) if t.dim() < 2 else t)


def atleast_3d(*tensors: Tensor) -> Any:
    """Return the tensors with at least three dimensions each: a vector as (1, n, 1), a matrix as (m, n, 1).

    Args:
        *tensors: tensors, or one list of tensors.
    Returns: the tensor for a single one, otherwise a tuple.
    Raises: TypeError for an argument that is not a tensor.

    Example:
        >>> tuple(flambeau.functional.atleast_3d(flambeau.ones(4)).shape)
        (1, 4, 1)
    """
    return _each(
        "atleast_3d",
        tensors,
        lambda t: t.reshape(1, -1, 1) if t.dim() < 2 else t.unsqueeze(-1) if t.dim() == 2 else t,
    )


# Defined in other modules and available under the name of this module as well.
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
