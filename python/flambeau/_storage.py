"""The memory behind tensors, as an object of its own: what pickles share."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from flambeau import _C
from flambeau._C import Tensor

_known: WeakValueDictionary[int, Storage] = WeakValueDictionary()


class Storage:
    """A block of bytes that a tensor and its views share.

    Args:
        source: how many bytes, not initialised; their values; or the whole block as a tensor of bytes.
    """

    __slots__ = ("__weakref__", "tensor")

    is_cuda = False

    def __init__(self, source: Any = 0) -> None:
        if isinstance(source, int):
            source = _C._empty_bytes(source)
        self.tensor = source if isinstance(source, Tensor) else _C.tensor(source, _C.uint8, None)
        _known.setdefault(self.tensor._storage_id(), self)

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
        return self.tensor.device

    def tolist(self) -> list[int]:
        """Return the bytes as numbers."""
        return list(bytes(self))

    def element_size(self) -> int:
        """Return 1: the elements are bytes."""
        return 1

    def untyped(self) -> Storage:
        """Return the storage: it knows no dtype."""
        return self

    def cpu(self) -> Storage:
        """Return the storage, which is on the host."""
        return self

    def clone(self) -> Storage:
        """Return a copy."""
        return from_bytes(bytes(self))

    def fill_(self, value: int) -> Storage:
        """Set every byte."""
        self.tensor.fill_(value)
        return self

    def copy_(self, source: Storage, non_blocking: bool = False) -> Storage:
        """Take over another storage's bytes, of which there must be as many."""
        self.tensor.copy_(source.tensor)
        return self

    def is_shared(self) -> bool:
        """Whether other processes can see the bytes."""
        from flambeau._shared_memory import is_shared

        return is_shared(self.tensor)

    def share_memory_(self) -> Storage:
        """Move the bytes to memory that processes share; no tensor may see them yet."""
        from flambeau._shared_memory import share

        share(self.tensor)
        _known.setdefault(self.tensor._storage_id(), self)
        return self

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return storage_of(self.tensor[index].clone())
        return int(self.tensor[index])

    def __setitem__(self, index: int | slice, value: int) -> None:
        self.tensor[index] = value

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def __repr__(self) -> str:
        rows = "".join(f" {value}\n" for value in self)
        return f"{rows}[flambeau.UntypedStorage(device={self.device}) of size {self.nbytes()}]"

    def __bytes__(self) -> bytes:
        values: Any = self.tensor  # offers its memory, which stubs can say from Python 3.12 on
        return bytes(memoryview(values)) if self.nbytes() else b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and self.tensor._storage_id() == other.tensor._storage_id()

    def __hash__(self) -> int:
        return self.tensor._storage_id()

    def __deepcopy__(self, memo: dict[int, Any]) -> Storage:
        return from_bytes(bytes(self))

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return from_bytes, (bytes(self),)


def storage_of(tensor: Tensor) -> Storage:
    """Return the one Storage object of a tensor's memory."""
    key = tensor._storage_id()
    found = _known.get(key)
    if found is None:
        found = _known[key] = Storage(_C._storage_bytes(tensor))
    return found


def from_bytes(data: bytes) -> Storage:
    """Return a new storage with a copy of the bytes."""
    out = _C._empty_bytes(len(data))
    if data:
        memoryview(out)[:] = data
    return storage_of(out)
