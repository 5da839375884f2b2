"""Storages: the memory of tensors, without a dtype and with one."""

from __future__ import annotations

from typing import Any, TypeVar

from flambeau._loading.lazy import attributes
from flambeau._object.storage import Storage, UntypedStorage
from flambeau._object.typed_storage import CLASS_OF_DTYPE, CLASSES, TypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]

T = TypeVar("T", bound=Storage | TypedStorage)
HAS_NUMPY = True
_StorageBase = _LegacyStorage = Storage


def _dtype_to_storage_type_map() -> dict[Any, str]:
    """Return dtype -> the class name that files have for its storages."""
    return dict(CLASS_OF_DTYPE)


def _storage_type_to_dtype_map() -> dict[str, Any]:
    """Return the name of a class of storages -> its dtype."""
    return {name: dtype for dtype, name in CLASS_OF_DTYPE.items()}


def _get_dtype_from_pickle_storage_type(pickle_storage_type: str) -> Any:
    """Return the dtype of a class of storages that a file names."""
    return _storage_type_to_dtype_map()[pickle_storage_type]


def _load_from_bytes(b: bytes) -> Any:
    """Return the storage that `save` wrote to bytes."""
    import io

    from flambeau.serialization import load

    return load(io.BytesIO(b), weights_only=False)


_CLASSES = CLASSES

__getattr__, __dir__ = attributes(__name__)
