"""The file `.metadata`: PyTorch's pickle, written under PyTorch's names and read through an allow list."""

from __future__ import annotations

import io
import pickle
from dataclasses import fields
from pathlib import PurePath
from typing import Any

from flambeau import _C
from flambeau._types.size import Size
from flambeau.serialization._allowed import _allowed
from flambeau.serialization._opcodes import Interpreter
from flambeau.serialization._pickler import Pickler, _Global

from . import metadata as names
from ._chunks import check_chunks
from ._storage_place import StoragePlace, shown
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

_METADATA = "torch.distributed.checkpoint.metadata"
_PLACE = ("torch.distributed.checkpoint.filesystem", "_StorageInfo")
_CLASSES: dict[tuple[str, str], Any] = {
    (_METADATA, cls.__name__): cls
    for cls in (
        BytesStorageMetadata,
        ChunkStorageMetadata,
        Metadata,
        MetadataIndex,
        StorageMeta,
        TensorProperties,
        TensorStorageMetadata,
    )
} | {_PLACE: StoragePlace}
_ENCODING = (_METADATA, "_MEM_FORMAT_ENCODING")
_NAMES = {cls: _Global(*name) for name, cls in _CLASSES.items()}


def _path(*parts: Any) -> str:
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(f"expected parts of a path, got {[type(part).__name__ for part in parts]}")
    return str(PurePath(*parts))


def _size(values: Any = ()) -> Size:
    if not all(type(n) is int and 0 <= n < 2**63 for n in values):
        raise ValueError(f"expected sizes >= 0, got {[shown(n) for n in values]}")
    return Size(values)


def _layout(name: Any) -> Any:
    if not isinstance(name, str) or name != "torch.strided":
        raise ValueError(f"expected strided tensors, got {shown(name)}")
    return _C.strided


def _encoding(number: Any) -> Any:
    if type(number) is not int:  # the enumeration would hash it
        raise ValueError(f"expected the number of a memory format, got {shown(number)}")
    return names._MEM_FORMAT_ENCODING(number)


class _Rules:
    """Only the classes of metadata, sizes, dtypes and paths."""

    def find(self, module: str, name: str) -> Any:
        key = (module, name)
        if key in _CLASSES:
            return _CLASSES[key]
        if key == _ENCODING:
            return _encoding
        if key == ("torch", "Size"):
            return _size
        if key == ("torch.serialization", "_get_layout"):
            return _layout
        if module in ("pathlib", "pathlib._local") and name in ("PosixPath", "WindowsPath"):
            return _path
        found = _allowed().get(key) if module == "torch" else None
        if not isinstance(found, _C.dtype):
            raise pickle.UnpicklingError(f"the file refers to {module}.{name}, which is not allowed")
        return found

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        if function in (_size, _layout, _path, _encoding):
            return function(*args)
        made = self.make(function, ())
        known = [f.name for f in fields(made)]
        if len(args) > len(known):
            raise pickle.UnpicklingError(f"expected at most {len(known)} arguments, got {len(args)}")
        self._set(made, dict(zip(known, args, strict=False)))
        return made

    def make(self, cls: Any, args: tuple[Any, ...]) -> Any:
        if cls not in _CLASSES.values() or args:
            raise pickle.UnpicklingError("the file makes an object of a class that is not allowed")
        return cls.__new__(cls)

    def set_state(self, obj: Any, state: Any) -> None:
        if type(obj) not in _CLASSES.values():
            raise pickle.UnpicklingError(f"the file sets attributes of {type(obj).__name__}")
        if isinstance(obj, TensorProperties) and isinstance(state, tuple) and len(state) == 5:
            dtype, layout, requires_grad, encoding, pinned = state
            if not isinstance(encoding, names._MEM_FORMAT_ENCODING):
                raise ValueError(f"expected a memory format, got {type(encoding).__name__}")
            state = {"dtype": dtype, "layout": layout, "requires_grad": requires_grad, "pin_memory": pinned}
        self._set(obj, state)

    def _set(self, obj: Any, state: Any) -> None:
        known = {f.name for f in fields(obj)}
        if not isinstance(state, dict) or not known.issuperset(state):
            raise pickle.UnpicklingError(f"expected attributes of {type(obj).__name__}, got others")
        if isinstance(obj, MetadataIndex):  # it is hashed before the whole is checked
            offset = state.get("offset")
            if not isinstance(state.get("fqn", ""), str) or not (offset is None or isinstance(offset, Size)):
                raise pickle.UnpicklingError("expected a name and an offset of integers, got other values")
        vars(obj).update(state)

    def is_list(self, obj: Any) -> bool:
        return type(obj) is list

    def is_dict(self, obj: Any) -> bool:
        return type(obj) is dict

    def resolve(self, persistent_id: Any) -> Any:
        raise pickle.UnpicklingError("the file refers to a storage")


def _expect(given: bool, what: str) -> None:
    if not given:
        raise ValueError(f"expected {what}, got another value")


def _check_tensor(fqn: str, whole: TensorStorageMetadata) -> None:
    _expect(isinstance(whole.properties, TensorProperties), f"properties of {fqn!r}")
    _expect(isinstance(whole.properties.dtype, _C.dtype), f"a dtype of {fqn!r}")
    _expect(isinstance(whole.size, Size) and isinstance(whole.chunks, list), f"a size and chunks of {fqn!r}")
    for chunk in whole.chunks:
        _expect(isinstance(chunk, ChunkStorageMetadata), f"chunks of {fqn!r}")
        _expect(isinstance(chunk.offsets, Size) and isinstance(chunk.sizes, Size), f"a box of {fqn!r}")
        _expect(len(chunk.offsets) == len(chunk.sizes), f"a box of {fqn!r}")
    check_chunks("load", fqn, whole)


def _checked(found: Any) -> Metadata:
    _expect(isinstance(found, Metadata), "metadata of a checkpoint")
    _expect(isinstance(found.state_dict_metadata, dict), "a dict of values")
    _expect(isinstance(found.storage_data, dict), "a dict of places")
    _expect(found.storage_meta is None or isinstance(found.storage_meta, StorageMeta), "facts of a storage")
    for fqn, whole in found.state_dict_metadata.items():
        _expect(isinstance(fqn, str), "keys of text")
        if isinstance(whole, TensorStorageMetadata):
            _check_tensor(fqn, whole)
        else:
            _expect(isinstance(whole, BytesStorageMetadata), f"a tensor or bytes for {fqn!r}")
    for index, place in found.storage_data.items():
        _expect(isinstance(index, MetadataIndex) and isinstance(place, StoragePlace), "places of values")
        place.check()
    return found


def loads(data: bytes, path: str) -> Metadata:
    """Return the metadata in a pickle that is not trusted.

    Raises: RuntimeError if it is damaged, or refers to anything but metadata.
    """
    try:
        return _checked(Interpreter(data, _Rules()).run())
    except (
        pickle.UnpicklingError,
        ValueError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        raise RuntimeError(
            f"load: expected metadata of a checkpoint in {path}, got a damaged file: {error}"
        ) from error


class _MetadataPickler(Pickler):
    """Writes our classes under PyTorch's names."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) not in _NAMES:
            return super().reducer_override(obj)
        if isinstance(obj, TensorProperties):
            encoding = _Encoded(0)  # the files hold contiguous values
            state = (obj.dtype, obj.layout, obj.requires_grad, encoding, obj.pin_memory)
            return _NAMES[TensorProperties], (), state
        return _NAMES[type(obj)], tuple(getattr(obj, f.name) for f in fields(obj))

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        base: Any = super()
        if isinstance(obj, _Encoded):
            self.save_reduce(_Global(*_ENCODING), (obj.number,))  # type: ignore[attr-defined]
        else:
            base.save(obj, save_persistent_id)


class _Encoded:
    """Number of a memory format."""

    def __init__(self, number: int) -> None:
        self.number = number


def dumps(value: Metadata) -> bytes:
    """Return the pickle of metadata, which PyTorch can read."""
    text = io.BytesIO()
    _MetadataPickler(text).dump(value)
    return text.getvalue()
