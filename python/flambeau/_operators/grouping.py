"""Groups of equal elements: unique and unique_consecutive.

In Python because the number of results depends on what is asked for. Calls `_unique2`, `unique_dim` and
`unique_consecutive`.
"""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor

__all__ = ["unique", "unique_consecutive"]


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the different elements, or slices along a dimension, in ascending order.

    Args:
        input: of any real dtype.
        sorted: accepted for compatibility; the result is always sorted.
        return_inverse: also the place of each element of `input` in the result.
        return_counts: also how often each occurs.
        dim: compare slices along this dimension; None: elements.
    Shape: ``(n,)``, or that of `input` with n slices; the inverse that of `input`, or ``(input.size(dim),)``.

    >>> from flambeau import tensor
    >>> unique(tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    wanted = (return_inverse, return_counts)
    if dim is None:
        found = _C._functions._unique2(input, sorted, *wanted)
    else:
        found = _C._functions.unique_dim(input, dim, sorted, *wanted)
    return _asked_for(found, *wanted)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the first of each group of equal neighbours.

    Args:
        input: of any real dtype.
        return_inverse: also the group of each element.
        return_counts: also the sizes of the groups.
        dim: compare slices along this dimension; None: elements in row-major order.

    >>> from flambeau import tensor
    >>> unique_consecutive(tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    found = _C._functions.unique_consecutive(input, return_inverse, return_counts, dim)
    return _asked_for(found, return_inverse, return_counts)


def _asked_for(found: tuple[Tensor, Tensor, Tensor], inverse: bool, counts: bool) -> Any:
    output, places, sizes = found
    if not inverse and not counts:
        return output
    return (output, *([places] if inverse else []), *([sizes] if counts else []))
