"""The memory behind tensors, as an object of its own: what pickles share.

There is one object per block of memory; `TypedStorage` shows it as elements of a dtype.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from flambeau import _C
from flambeau._C import Tensor
from flambeau._types import naming, older_names

if TYPE_CHECKING:
    from flambeau._object.typed_storage import TypedStorage

_known: WeakValueDictionary[int, UntypedStorage] = WeakValueDictionary()


def position(index: Any, size: int) -> int:
    """Return an index, which may count from the end, as one from the beginning."""
    if not -size <= index < size:
        raise IndexError(
            f"UntypedStorage: index {index} is out of range: expected {-size} to {size - 1}, got {index}"
        )
    return int(index) % size


class UntypedStorage:
    """A block of bytes that a tensor and its views share.

    Args:
        source: how many bytes, not initialised; their values; or the whole block as a tensor of bytes.
        device: where the bytes are, if `source` is their number or values.

    Example:
        >>> x = flambeau.zeros(3)
        >>> x.untyped_storage().nbytes()
        12
        >>> x[1:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        True
    """

    __slots__ = ("__weakref__", "_bytes")

    is_cuda = is_hpu = is_sparse = is_sparse_csr = False
    filename = None

    def __init__(self, source: Any = 0, *, device: Any = None) -> None:
        if isinstance(source, int):
            source = _C._empty_bytes(source)
        elif not isinstance(source, Tensor):
            source = _bytes_from(source)
        self._bytes = source if device is None else source.to(device)
        _known.setdefault(self._bytes._storage_id(), self)

    @property
    def tensor(self) -> Tensor:
        """All bytes as a tensor: as many as there are now."""
        return _C._storage_bytes(self._bytes)

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self.tensor.numel()

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return self.tensor.data_ptr()

    @property
    def device(self) -> _C.device:
        """Where the bytes are."""
        return self._bytes.device

    def get_device(self) -> int | None:
        """Return the index of the device; None for the host."""
        return None if self.device.type == "cpu" else self._bytes.get_device()

    def tolist(self) -> list[int]:
        """Return the bytes as numbers."""
        return list(bytes(self))

    def element_size(self) -> int:
        """Return 1: the elements are bytes."""
        return 1

    def resizable(self) -> bool:
        """Whether the memory is the allocator's, and no other library, file or process sees it."""
        return not self.is_shared() and self._bytes._storage_resizable()

    def untyped(self) -> UntypedStorage:
        """Return the storage: it knows no dtype."""
        return self

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of the class, or a storage of another dtype."""
        return (
            f"{naming.root}.UntypedStorage" if dtype is None else self._converted(older_names.dtype_of(dtype))
        )

    def _converted(self, dtype: _C.dtype) -> TypedStorage:
        from flambeau._object.typed_storage import TypedStorage

        return TypedStorage(wrap_storage=self, dtype=_C.uint8)._converted(dtype)

    def to(self, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """Return the bytes on a device; the storage itself if it is there."""
        moved = self.tensor.to(device=device)
        return self if moved.device == self.device else storage_of(moved)

    def cpu(self) -> UntypedStorage:
        """Return the bytes on the host; the storage itself if it is there."""
        return self.to("cpu")

    def clone(self) -> UntypedStorage:
        """Return a copy."""
        return storage_of(self.tensor.clone())

    def new(self) -> UntypedStorage:
        """Return a storage of no bytes on the same device."""
        return UntypedStorage(0, device=self.device)

    def fill_(self, value: Any) -> UntypedStorage:
        """Set every byte."""
        self.tensor.fill_(_byte("fill_", value))
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> UntypedStorage:
        """Copy another storage's bytes; it must have the same number of bytes."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"copy_: size does not match: expected {self.nbytes()} bytes in src, got {source.nbytes()}"
            )
        self.tensor.copy_(source.untyped().tensor)
        return self

    def resize_(self, size: int) -> UntypedStorage:
        """Change the number of bytes, in place; those that stay keep their values.

        Raises: RuntimeError if there would be fewer while tensors see them.
        """
        if size < 0:
            raise RuntimeError(f"resize_: expected a size of at least 0, got {size}")
        if size > self.nbytes():
            self.tensor.resize_(size)
        elif size < self.nbytes():
            self._shrink(size)
        return self

    def _shrink(self, size: int) -> None:
        if (users := _C._storage_users(self._bytes)) > 1:
            raise RuntimeError(f"resize_: {users - 1} tensors see the bytes that would go")
        _known.pop(self._bytes._storage_id(), None)
        self._bytes = self.tensor[:size].clone()
        _known[self._bytes._storage_id()] = self

    def byteswap(self, dtype: _C.dtype) -> None:
        """Reverse the bytes of each element of the dtype; of complex numbers, those of each part."""
        width = dtype.itemsize // (2 if dtype.is_complex else 1)
        rows = self.tensor[: self.nbytes() // width * width].reshape(-1, width)
        rows.copy_(rows.flip(1))

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Whether the memory is pinned for copies to a device; never, here."""
        return False

    def pin_memory(self, device: Any = "cuda") -> UntypedStorage:
        """Return the storage: memory of the host needs no pinning."""
        return self

    def is_shared(self) -> bool:
        """Whether other processes can see the bytes."""
        from flambeau._object.shared_memory import is_shared

        return is_shared(self._bytes)

    def share_memory_(self) -> UntypedStorage:
        """Move the bytes to memory that processes share; no tensor may see them yet."""
        from flambeau._object.shared_memory import share

        share(self._bytes)
        _known.setdefault(self._bytes._storage_id(), self)
        return self

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> UntypedStorage:
        from flambeau._object.shared_memory import new_storage

        return new_storage(size)

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: Any = None, count: int = -1, offset: int = 0, *, dtype: Any
    ) -> UntypedStorage:
        """Return a copy of elements of an object's memory, by the buffer protocol.

        Args:
            buffer: the object.
            byte_order: "little", "big" or "native"; needed unless elements are integers of one byte.
            count: number of elements; -1: as many as there are.
            offset: bytes to skip.
            dtype: of the elements.
        """
        needed = dtype not in (_C.uint8, _C.int8) or byte_order is not None
        if needed and byte_order not in ("big", "little", "native"):
            if byte_order is None:
                raise RuntimeError(f"from_buffer: expected a byte_order for {dtype}, got None")
            raise ValueError(f"from_buffer: expected byte_order big, little or native, got {byte_order!r}")
        data, width = memoryview(buffer).cast("B"), dtype.itemsize
        if offset < 0 or offset > len(data):
            raise ValueError(f"from_buffer: expected an offset from 0 to {len(data)}, got {offset}")
        if count < 0 and (len(data) - offset) % width:
            raise ValueError(
                f"from_buffer: expected elements of {width} bytes, got {len(data) - offset} bytes"
            )
        have = (len(data) - offset) // width
        if count > have:
            raise ValueError(f"from_buffer: expected a count up to {have} after offset {offset}, got {count}")
        end = offset + (have if count < 0 else count) * width
        out = from_bytes(data[offset:end])
        if byte_order == "big" and sys.byteorder == "little":
            out.byteswap(dtype)
        return out

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> Any:
        """Return the bytes of a file, mapped into memory.

        Args:
            filename: of the file; made, or made longer, if it is `shared`.
            shared: whether writing to the storage writes to the file.
            nbytes: number of bytes.
        """
        from flambeau._object.conversion import from_file

        return storage_of(from_file(filename, shared, nbytes, dtype=_C.uint8))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _part(self, index)
        if not isinstance(index, int):
            raise TypeError(f"UntypedStorage: expected an integer or slice index, got {type(index).__name__}")
        return int(self.tensor[position(index, self.nbytes())])

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            _part(self, index).fill_(value)
        else:
            self.tensor[position(index, self.nbytes())] = _byte("storage content", value)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        rows = "".join(f" {value}\n" for value in self) if self.device.type == "cpu" else "...\n"
        return f"{rows}[flambeau.UntypedStorage(device={self.device}) of size {self.nbytes()}]"

    def __bytes__(self) -> bytes:
        values: Any = self.tensor.cpu()  # offers its memory, which stubs can say from Python 3.12 on
        return bytes(memoryview(values)) if self.nbytes() else b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self._bytes._storage_id() == other._bytes._storage_id()

    def __hash__(self) -> int:
        return self._bytes._storage_id()

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        copied: UntypedStorage = memo[id(self)]
        return copied

    def __reduce__(self) -> Any:
        if self.device.type == "cpu":
            return from_bytes, (bytes(self),)
        return _bytes_on, (bytes(self), self.device)


def _bytes_on(values: bytes, device: _C.device) -> UntypedStorage:
    """Return a storage of bytes on a device."""
    return from_bytes(values).to(device)


Storage = UntypedStorage


def _byte(what: str, value: Any) -> int:
    if not isinstance(value, int):
        raise RuntimeError(f"{what}: expected an int, got {type(value).__name__}")
    return value & 0xFF


def _bytes_from(values: Any) -> Tensor:
    if not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        raise RuntimeError(f"UntypedStorage: expected a number or a sequence, got {type(values).__name__}")
    return _C.tensor([_byte("UntypedStorage", value) for value in values], _C.uint8, None)


def _part(storage: UntypedStorage, index: slice) -> UntypedStorage:
    """Return consecutive bytes as a storage over the same memory."""
    begin, end, step = index.indices(storage.nbytes())
    if step != 1:
        raise RuntimeError(f"UntypedStorage: expected a slice with a step of 1, got a step of {step}")
    if end <= begin:
        return UntypedStorage(0)
    whole: Any = storage.tensor  # offers its memory, which stubs can say from Python 3.12 on
    return storage_of(_C._from_buffer(memoryview(whole), _C.uint8, end - begin, begin))


def storage_of(tensor: Tensor) -> UntypedStorage:
    """Return the one storage object of a tensor's memory."""
    key = tensor._storage_id()
    found = _known.get(key)
    if found is None:
        found = _known[key] = UntypedStorage(_C._storage_bytes(tensor))
    return found


def from_bytes(data: Any) -> UntypedStorage:
    """Return a new storage with a copy of the bytes."""
    out = _C._empty_bytes(len(data))
    if len(data):
        memoryview(out)[:] = data
    return storage_of(out)


class StorageWeakRef:
    """A weak reference to a storage: its memory may go.

    Args:
        storage: the storage.
    """

    __slots__ = ("__weakref__", "_reference", "cdata")
    _reference: Any
    cdata: int

    def __init__(self, storage: Any) -> None:
        whole = getattr(storage, "_untyped_storage", storage).tensor
        self.cdata = whole._storage_id()
        self._reference = _C._weak_storage(whole)
        _weak[self.cdata] = self

    @classmethod
    def from_weakref(cls, cdata: int) -> StorageWeakRef:
        """Return a reference to the storage of one that lives, by its number."""
        other = _weak.get(cdata)
        if other is None:
            raise RuntimeError(f"StorageWeakRef: no weak reference has the number {cdata}")
        made = cls.__new__(cls)
        made.cdata, made._reference = cdata, other._reference
        return made

    def expired(self) -> bool:
        """Whether the storage is gone."""
        return bool(_C._weak_storage_expired(self._reference))

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata


_weak: WeakValueDictionary[int, StorageWeakRef] = WeakValueDictionary()
