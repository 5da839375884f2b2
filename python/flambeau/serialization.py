"""Objects with tensors in files: PyTorch's zip format, both ways.

A file is an uncompressed zip: ``archive/data.pkl`` is a pickle in which each storage is a persistent id, and
``archive/data/<key>`` holds its bytes. Reading accepts plain data only, unless told otherwise.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._size import Size
from flambeau._storage import Storage, from_bytes
from flambeau._tensor import _rebuild_tensor

_PROTOCOL = 2
_STORAGE_NAMES = {
    "FloatStorage": _C.float32, "DoubleStorage": _C.float64, "HalfStorage": _C.float16,
    "BFloat16Storage": _C.bfloat16, "ByteStorage": _C.uint8, "CharStorage": _C.int8, "ShortStorage": _C.int16,
    "IntStorage": _C.int32, "LongStorage": _C.int64, "BoolStorage": _C.bool,
    "ComplexFloatStorage": _C.complex64, "ComplexDoubleStorage": _C.complex128,
}  # fmt: skip
_NAME_OF_DTYPE = {dtype: name for name, dtype in _STORAGE_NAMES.items()}
# The format has no type of storage for these: it says the dtype beside the bytes.
_UNTYPED = (_C.uint16, _C.uint32, _C.uint64, _C.complex32)


class _Global:
    """A name that the pickle refers to, though this process cannot import it."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self) -> None:
        """Let pickle take it for a function."""


_REBUILD_TENSOR = _Global("torch._utils", "_rebuild_tensor_v2")
_REBUILD_UNTYPED = _Global("torch._utils", "_rebuild_tensor_v3")
_REBUILD_PARAMETER = _Global("torch._utils", "_rebuild_parameter")
_STORAGE_TYPES = {dtype: _Global("torch", name) for dtype, name in _NAME_OF_DTYPE.items()}
_UNTYPED_STORAGE = _Global("torch.storage", "UntypedStorage")


class _TypedStorage:
    """A storage as the format sees it: with the dtype of the tensor that refers to it."""

    def __init__(self, storage: Storage, dtype: _C.dtype) -> None:
        self.storage, self.dtype = storage, dtype


class _Pickler(pickle._Pickler):
    """Writes tensors as PyTorch's reader expects them."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, protocol=_PROTOCOL)
        self.storages: dict[Storage, str] = {}

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, _TypedStorage):
            return None
        key = self.storages.setdefault(obj.storage, str(len(self.storages)))
        if obj.dtype in _UNTYPED:
            return "storage", _UNTYPED_STORAGE, key, "cpu", obj.storage.nbytes()
        count = obj.storage.nbytes() // obj.dtype.itemsize
        return "storage", _STORAGE_TYPES[obj.dtype], key, "cpu", count

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Size):
            return _Global("torch", "Size"), (tuple(obj),)
        if isinstance(obj, _C.device):
            return _Global("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        if isinstance(obj, _C.layout):
            return _Global("torch.serialization", "_get_layout"), (str(obj).replace("flambeau", "torch"),)
        if not isinstance(obj, Tensor):
            return NotImplemented
        if type(obj).__name__ == "Parameter":
            return _REBUILD_PARAMETER, (obj.detach().as_subclass(Tensor), obj.requires_grad, OrderedDict())
        plain = obj.detach().cpu()
        storage = _TypedStorage(plain.untyped_storage(), plain.dtype)
        geometry = (plain.storage_offset(), tuple(plain.shape), plain.stride())
        arguments: tuple[Any, ...] = (storage, *geometry, obj.requires_grad, OrderedDict())
        if plain.dtype in _UNTYPED:
            return _REBUILD_UNTYPED, (*arguments, plain.dtype)
        return _REBUILD_TENSOR, arguments

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        own: Any = self  # the class's stubs leave out what subclasses may use
        base: Any = super()
        if isinstance(obj, _C.dtype):
            obj = _Global("torch", str(obj).removeprefix("flambeau."))
        if isinstance(obj, _Global):
            own.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            return
        base.save(obj, save_persistent_id)


def save(
    obj: Any,
    f: str | Path | IO[bytes],
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object with tensors to a file that `load` and PyTorch can read.

    Args:
        obj: a tensor, a state_dict, or nested containers of them.
        f: a path, or a file open for writing.
        pickle_module: accepted for compatibility.
        pickle_protocol: accepted for compatibility; the format fixes it.
        _use_new_zipfile_serialization: accepted for compatibility; there is no other format.
        _disable_byteorder_record: leave out that bytes are in little-endian order.
    """
    text = io.BytesIO()
    pickler = _Pickler(text)
    pickler.dump(obj)
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", text.getvalue())
        if not _disable_byteorder_record:
            archive.writestr("archive/byteorder", "little")
        for storage, key in pickler.storages.items():
            archive.writestr(f"archive/data/{key}", bytes(storage))
        archive.writestr("archive/version", "3\n")


def _tensor_v2(storage: Any, offset: int, size: Any, stride: Any, requires_grad: bool, *_: Any) -> Tensor:
    return _rebuild_tensor(Tensor, storage.storage, storage.dtype, offset, size, stride, requires_grad)


def _tensor_v3(
    storage: Any, offset: int, size: Any, stride: Any, requires_grad: bool, _: Any, dtype: _C.dtype, *__: Any
) -> Tensor:
    return _rebuild_tensor(Tensor, storage.storage, dtype, offset, size, stride, requires_grad)


def _parameter(data: Tensor, requires_grad: bool, *_: Any) -> Any:
    from flambeau.nn import Parameter

    return Parameter(data, requires_grad)


def _bytes(text: str, encoding: str) -> bytes:
    """What protocol 2 has instead of bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"expected bytes as latin1, got {encoding}")
    return text.encode(encoding)


_ALLOWED: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor_v2,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor_v3,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch.storage", "UntypedStorage"): _C.uint8,  # bytes
    ("torch", "Size"): Size,
    ("torch", "device"): _C.device,
    ("collections", "OrderedDict"): OrderedDict,
    **{("torch", name): dtype for name, dtype in _STORAGE_NAMES.items()},
    **{("torch", str(dtype).removeprefix("flambeau.")): dtype for dtype in (*_NAME_OF_DTYPE, *_UNTYPED)},
    **{("builtins", t.__name__): t for t in (set, frozenset, complex, slice, bytearray, int, float, range)},
    ("_codecs", "encode"): _bytes,
    ("torch.serialization", "_get_layout"): {"torch.strided": _C.strided}.__getitem__,
}


_safe: dict[tuple[str, str], Any] = {}


def _named(entry: Any) -> tuple[tuple[str, str], Any]:
    """The name in files, and what it stands for, of an entry of `add_safe_globals`."""
    if isinstance(entry, tuple):
        target, name = entry
        module, _, rest = name.rpartition(".")
        return (module, rest), target
    return (entry.__module__, entry.__qualname__), entry


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load` accept these classes and functions in files that are not trusted otherwise.

    Args:
        safe_globals: classes, functions, or pairs of one and the name that files call it.
    """
    _safe.update(_named(entry) for entry in safe_globals)


def get_safe_globals() -> list[Any]:
    """Return what `add_safe_globals` has added."""
    return [t if (m, n) == _named(t)[0] else (t, f"{m}.{n}") for (m, n), t in _safe.items()]


def clear_safe_globals() -> None:
    """Take back what `add_safe_globals` has added."""
    _safe.clear()


class safe_globals:
    """`add_safe_globals` for a block.

    Args:
        safe_globals: as there.
    """

    def __init__(self, safe_globals: list[Any]) -> None:
        self.added = list(safe_globals)

    def __enter__(self) -> None:
        self.before = dict(_safe)
        add_safe_globals(self.added)

    def __exit__(self, *_: object) -> None:
        _safe.clear()
        _safe.update(self.before)


def _layer(file: str, name: str) -> Any:
    """A class or function of PyTorch's layers, whose files are not all named as ours."""
    modules = import_module("flambeau.nn.modules")
    if isinstance(layer := getattr(modules, name, None), type):
        return layer
    return getattr(getattr(modules, file), name)


class _Unpickler(pickle.Unpickler):
    """Reads storages from the archive, and only known names unless `trusted`."""

    def __init__(self, archive: zipfile.ZipFile, root: str, trusted: bool) -> None:
        super().__init__(io.BytesIO(archive.read(f"{root}/data.pkl")), encoding="utf-8")
        self.archive, self.root, self.trusted = archive, root, trusted
        self.storages: dict[str, Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        module = "builtins" if module == "__builtin__" else module  # its name in Python 2, as in protocol 2
        found = _ALLOWED.get((module, name)) or _safe.get((module, name))
        if found is not None:
            return found
        if not self.trusted:
            raise pickle.UnpicklingError(
                f"Weights only load failed: the file refers to {module}.{name}, which is not allowed. "
                "Load it with weights_only=False if you trust its source: that can run any code."
            )
        if module.startswith("torch.nn.modules."):
            return _layer(module.removeprefix("torch.nn.modules."), name)
        root, _, rest = module.partition(".")
        target = f"flambeau.{rest}".rstrip(".") if root == "torch" else module
        return getattr(import_module(target), name)

    def persistent_load(self, pid: Any) -> _TypedStorage:
        _, dtype, key, _, _ = pid
        if key not in self.storages:
            self.storages[key] = from_bytes(self.archive.read(f"{self.root}/data/{key}"))
        return _TypedStorage(self.storages[key], dtype)


def load(
    f: str | Path | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
) -> Any:
    """Read an object from a file that `save` or PyTorch wrote.

    Args:
        f: a path, or a file open for reading.
        map_location: a device for all tensors; by default the CPU.
        pickle_module: accepted for compatibility.
        weights_only: refuse everything but tensors and plain containers; other pickles can run any code.
        mmap: accepted for compatibility.
    Raises: UnpicklingError for names that are not allowed and for other formats; EOFError for nothing.
    """
    with _archive(f) as archive:
        root = next(name for name in archive.namelist() if name.endswith("/data.pkl")).rpartition("/")[0]
        found = _Unpickler(archive, root, trusted=not weights_only).load()
    if map_location is None or _C.device(map_location).type == "cpu":
        return found
    return _moved(found, map_location)


def _archive(f: Any) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(f)
    except zipfile.BadZipFile as error:
        empty = f.seek(0, io.SEEK_END) == 0 if hasattr(f, "seek") else Path(f).stat().st_size == 0
        if empty:
            raise EOFError("load: the file is empty") from error
        raise pickle.UnpicklingError("load: expected a file in PyTorch's zip format") from error


def _moved(obj: Any, device: Any) -> Any:
    if isinstance(obj, Tensor):
        return obj.to(device=device)
    if isinstance(obj, dict):
        return type(obj)((key, _moved(value, device)) for key, value in obj.items())
    if isinstance(obj, list | tuple):
        return type(obj)(_moved(value, device) for value in obj)
    return obj
