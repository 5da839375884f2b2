"""The type of shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex, overload

from flambeau import _C
from flambeau._types import naming

__all__ = ["Size"]


class Size(tuple[int, ...]):
    """The sizes of a tensor, one for each dimension.

    Args:
        iterable: the sizes; none: the shape of a tensor without dimensions.

    Example:
        >>> tuple(flambeau.zeros(2, 3).shape)
        (2, 3)
        >>> flambeau.Size([2, 3]).numel()
        6
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{naming.root}.Size({list(self)})"

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        count = 1
        for size in self:
            count *= size
        return count

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, index: SupportsIndex, /) -> int: ...
        @overload
        def __getitem__(self, index: slice, /) -> Size: ...

    def __getitem__(self, index: SupportsIndex | slice) -> int | Size:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(found, tuple) else found

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: tuple[int, ...]) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, times))

    def __reduce__(self) -> tuple[type[Size], tuple[tuple[int, ...]]]:
        return Size, (tuple(self),)


Size.__module__ = "flambeau"
_C._set_size_class(Size)
