"""Methods of Tensor about its memory and its properties."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, overload

from flambeau import _C
from flambeau._C import Tensor

__all__ = ["detach_", "get_device", "is_same_size", "is_signed"]


def _set_from(tensor: Any, source: Tensor) -> Tensor:
    """Set a tensor, and raise its version, which is that of the memory, so that backward sees the change."""
    known = None if tensor.is_inference() else tensor._version
    _C._functions._set_from_(tensor, source)
    while known is not None and not tensor.is_inference() and tensor._version <= known:
        _C._increment_version(tensor)
    return tensor


class MemoryMethods:
    """Copied into Tensor, as the other methods that are written in Python."""

    __slots__ = ()

    def set_(
        self: Any,
        source: Any = None,
        storage_offset: int = 0,
        size: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
    ) -> Tensor:
        """See the memory of another tensor or of a storage; none: no memory, with no elements.

        Args:
            source: a tensor, or a storage.
            storage_offset: the first element, in elements.
            size: the sizes; None: those of the tensor, or all elements of the storage.
            stride: the strides; None: row-major. A storage that is too small for them grows.
        """
        if source is None:
            return _set_from(self, _C._functions.empty((0,), dtype=self.dtype))
        if isinstance(source, Tensor):
            if size is None:
                return _set_from(self, source)
            source = source.untyped_storage()
        if getattr(source, "dtype", self.dtype) != self.dtype:
            raise RuntimeError(f"set_: expected a storage of {self.dtype}, got one of {source.dtype}")
        source = source.untyped()
        count = source.nbytes() // self.element_size()
        sizes = (count - storage_offset,) if size is None else tuple(size)
        strides = _row_major(sizes) if stride is None else tuple(stride)
        needed = _end(sizes, strides, storage_offset) * self.element_size()
        if needed > source.nbytes():
            source.resize_(needed)
        seen = _C._rebuild(source.tensor, self.dtype, sizes, strides, storage_offset)
        return _set_from(self, seen)

    def resize(self: Any, *sizes: Any) -> Tensor:
        """Return the elements with other sizes, of the same number, as `reshape` (deprecated)."""
        warnings.warn("non-inplace resize is deprecated; use reshape", UserWarning, stacklevel=2)
        return self.reshape(*sizes)

    def resize_as(self: Any, tensor: Tensor) -> Tensor:
        """Return the elements with the sizes of another tensor (deprecated)."""
        warnings.warn("non-inplace resize_as is deprecated; use reshape", UserWarning, stacklevel=2)
        return self.reshape(tensor.shape)

    def is_set_to(self: Any, tensor: Tensor) -> bool:
        """Whether both see the same elements of the same memory in the same order."""
        return (
            self._storage_id() == tensor._storage_id()
            and self.storage_offset() == tensor.storage_offset()
            and self.shape == tensor.shape
            and self.stride() == tensor.stride()
        )

    def is_shared(self: Any) -> bool:
        """Whether other processes can see the memory."""
        from flambeau._object.shared_memory import is_shared

        return is_shared(self)

    def share_memory_(self: Any) -> Tensor:
        """Move the memory, in place, to where processes that are forked from this one see it too.

        A queue of `multiprocessing` sends the place then, not a copy.
        Raises: RuntimeError if other tensors see the same memory, since they would be left behind.
        """
        from flambeau._object.shared_memory import share

        return share(self)

    def get_device(self: Any) -> int:
        """Return the index of the device; -1 for the host."""
        device = self.device
        return -1 if device.type in ("cpu", "meta") else device.index or 0

    @property
    def _grad(self: Any) -> Tensor | None:
        """The gradient, without a warning where the tensor is not a leaf."""
        return self.grad if self.is_leaf or self.retains_grad else None

    @_grad.setter
    def _grad(self: Any, value: Tensor | None) -> None:
        self.grad = value

    @property
    def _grad_fn(self: Any) -> Any:
        """The node that made the tensor."""
        return self.grad_fn

    def _is_all_true(self: Any) -> Tensor:
        """Return whether all elements of a tensor of dtype bool are true, as a tensor."""
        if self.dtype is not _C.bool:
            raise RuntimeError(f"_is_all_true: expected dtype bool, got {self.dtype}")
        return self.all()

    def _is_any_true(self: Any) -> Tensor:
        """Return whether any element of a tensor of dtype bool is true, as a tensor."""
        if self.dtype is not _C.bool:
            raise RuntimeError(f"_is_any_true: expected dtype bool, got {self.dtype}")
        return self.any()

    def module_load(self: Any, other: Tensor, assign: bool = False) -> Tensor:
        """Return what a module keeps in this tensor's place when it loads `other`."""
        return other.detach() if assign else self.detach().copy_(other).detach()

    def is_same_size(self: Any, other: Tensor) -> bool:
        """Whether both have the same sizes."""
        return self.shape == other.shape

    def is_signed(self: Any) -> bool:
        """Whether the dtype has negative numbers."""
        return self.dtype.is_signed

    def dim_order(self: Any, *, ambiguity_check: bool = False) -> tuple[int, ...]:
        """Return the dimensions as they lie in memory, outermost first.

        Args:
            ambiguity_check: refuse tensors whose order is not unique.
        """
        order = sorted(range(self.dim()), key=lambda d: (-self.stride(d), d))
        if ambiguity_check and len({self.stride(d) for d in order}) < len(order):
            raise RuntimeError(f"dim_order: expected strides that allow one order, got {self.stride()}")
        return tuple(order)

    def fill_diagonal_(self: Any, fill_value: float, wrap: bool = False) -> Tensor:
        """Write a number on the main diagonal.

        Args:
            fill_value: the number.
            wrap: begin again below the diagonal of a tall matrix, one row further down.
        Raises: RuntimeError for fewer than 2 dimensions, and for more unless all sizes are equal.
        """
        if self.dim() < 2:
            raise RuntimeError(
                "fill_diagonal_: dimensions must larger than 1: expected 2 dimensions or more, got "
                f"{self.dim()}"
            )
        if self.dim() > 2 and len(set(self.shape)) > 1:
            raise RuntimeError(
                f"fill_diagonal_: expected dimensions of equal length, got shape {list(self.shape)}"
            )
        if self.dim() > 2:
            count, step = self.shape[0], sum(self.stride())
            self.as_strided((count,), (step,), self.storage_offset()).fill_(fill_value)
            return self
        rows, columns = self.shape
        for start in range(0, rows if wrap else 1, columns + 1):
            self.narrow(0, start, rows - start).diagonal().fill_(fill_value)
        return self

    @overload
    def new(self: Any, *args: Any, device: Any = None) -> Tensor: ...
    @overload
    def new(self: Any, storage: Any) -> Tensor: ...
    @overload
    def new(self: Any, other: Tensor) -> Tensor: ...
    @overload
    def new(self: Any, size: Any, *, device: Any = None) -> Tensor: ...
    def new(self: Any, *args: Any, device: Any = None, **named: Any) -> Tensor:
        """Return an uninitialised tensor of the given sizes, or of given data or a storage, in this dtype."""
        where = self.device if device is None else device
        if named:
            if args or len(named) != 1 or not set(named) <= {"storage", "other", "size"}:
                raise TypeError(f"new(): expected one of storage, other and size, got {sorted(named)}")
            args = tuple(named.values())
            args = (_size_type()(args[0]),) if "size" in named else args
        if len(args) == 1 and hasattr(args[0], "untyped"):
            return _over_storage(self, args[0])
        if len(args) == 1 and isinstance(args[0], Tensor):
            return args[0].detach().to(dtype=self.dtype, device=where)
        if len(args) == 1 and isinstance(args[0], list | tuple) and not isinstance(args[0], _size_type()):
            return _C.tensor(args[0], self.dtype, where)
        sizes = args[0] if len(args) == 1 and not isinstance(args[0], int) else args or (0,)
        return _C._functions.empty(tuple(sizes), dtype=self.dtype, layout=self.layout, device=where)


def _over_storage(like: Tensor, storage: Any) -> Tensor:
    """Return a tensor of one dimension over the elements of a storage."""
    if storage.dtype != like.dtype:
        raise TypeError(f"new(): expected a storage of {like.dtype}, got {storage.dtype}")
    seen: Tensor = storage._elements()
    return seen


def _size_type() -> type:
    from flambeau._types.size import Size

    return Size


def _end(sizes: tuple[int, ...], strides: tuple[int, ...], offset: int) -> int:
    """Return the elements up to the last that such a tensor sees; 0 for a value that is not a tensor."""
    if len(sizes) != len(strides) or min((offset, *sizes, *strides)) < 0 or 0 in sizes:
        return 0
    return offset + 1 + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))


def _row_major(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def detach_(input: Tensor) -> Tensor:
    """Take a tensor out of the graph, in place."""
    return input.detach_()


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same sizes."""
    return input.is_same_size(other)


def is_signed(input: Tensor) -> bool:
    """Whether a tensor's dtype has negative numbers."""
    return input.is_signed()


def get_device(input: Tensor) -> int:
    """Return the index of a tensor's device; -1 for the host."""
    return input.get_device()
