"""The memory behind tensors, as an object of its own: what pickles share."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from flambeau import _C
from flambeau._C import Tensor

_known: WeakValueDictionary[int, Storage] = WeakValueDictionary()


class Storage:
    """A block of bytes that a tensor and its views share.

    Attributes:
        tensor: the whole block as a tensor of bytes.
    """

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

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

    def __bytes__(self) -> bytes:
        return bytes(memoryview(self.tensor)) if self.nbytes() else b""

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
