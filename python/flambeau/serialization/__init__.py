"""Objects with tensors in files: PyTorch's zip format, both ways.

A file is an uncompressed zip: ``archive/data.pkl`` is a pickle in which each storage is a persistent id, and
``archive/data/<key>`` holds its bytes. Reading accepts plain data only, unless told otherwise.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from flambeau import _C
from flambeau._loading.lazy import attributes
from flambeau._object import rebuild
from flambeau._object.storage import Storage, storage_of
from flambeau._object.typed_storage import TypedStorage

from ._allowed import (
    SafeRules,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    refused_names,
    safe_globals,
)
from ._archive import ALIGNMENT, Reader, Writer
from ._legacy import Unpickler, is_stream, is_tar, load_stream, load_tar
from ._opcodes import Interpreter
from ._options import (
    LoadEndianness,
    SourceChangeWarning,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    mapped,
    opening_mode,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from ._pickler import Pickler
from ._places import default_restore_location, location_tag, placing, register_package
from ._replacement import replacing
from ._streams import Tail, save_stream

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]

_ROOT = "archive"
_ZIP = b"PK\3\4"


def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object with tensors to a file that `load` and PyTorch can read.

    A file is replaced atomically: the old file remains if the process ends or the disk is full. Pipes,
    devices and open files are written directly.

    Args:
        obj: a tensor, a storage, a state dict, or nested containers of them.
        f: a path, or a file open for writing.
        pickle_module: no effect.
        pickle_protocol: no effect; the format determines it.
        _use_new_zipfile_serialization: False writes the format of PyTorch before 1.6; a file may hold several
            objects in it, one after the other.
        _disable_byteorder_record: whether to omit the record of the byte order, which is little-endian.
    Returns: None.
    Raises: RuntimeError if the file cannot be written.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> flambeau.save(flambeau.ones(2), file)
        >>> file.seek(0)
        0
        >>> flambeau.load(file)
        tensor([1., 1.])
    """
    if not _use_new_zipfile_serialization:
        with _target(f) as write:
            save_stream(obj, write, _bytes_of)
        return
    text = io.BytesIO()
    pickler = Pickler(text)
    pickler.dump(obj)
    with _target(f) as write:
        archive = Writer(write, get_crc32_options())
        archive.add(f"{_ROOT}/data.pkl", text.getvalue())
        if not _disable_byteorder_record:
            archive.add(f"{_ROOT}/byteorder", b"little")
        for storage, key in pickler.storages.items():
            archive.add(f"{_ROOT}/data/{key}", _bytes_of(storage))
        archive.add(f"{_ROOT}/version", b"3\n")
        archive.close()


def _bytes_of(storage: Storage) -> memoryview:
    if skip_data.active:
        return memoryview(bytes(storage.nbytes()))
    values: Any = storage.cpu().tensor  # offers its memory, which stubs can say from Python 3.12 on
    return memoryview(values) if storage.nbytes() else memoryview(b"")


@contextlib.contextmanager
def _target(f: Any) -> Iterator[Callable[[Any], None]]:
    if not isinstance(f, str | os.PathLike):
        yield _writing(f)
        return
    parent = Path(f).parent
    if not parent.is_dir():
        raise RuntimeError(f"save: Parent directory {parent} does not exist.")
    try:
        with replacing(f) as file:
            yield _writing(file)
    except OSError as error:
        raise RuntimeError(f"save: File {os.fspath(f)} cannot be opened or written: {error}") from error


def _writing(file: Any) -> Callable[[Any], None]:
    if not isinstance(file, io.IOBase):  # may know nothing but bytes
        return lambda data: file.write(bytes(data))

    def write(data: Any) -> None:
        view = memoryview(data)
        while len(view):  # a raw file may write less than it gets
            view = view[file.write(view) :]

    return write


class _Trusting:
    """Additions to Python's unpickler: our classes under PyTorch's names, and storages."""

    storages: Any

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._tensor", "_rebuild_from_type_v2"):
            return rebuild._rebuild_from_type_v2  # of any class
        if (module, name) == ("torch._utils", "_rebuild_wrapper_subclass"):
            return rebuild._rebuild_wrapper_subclass
        with contextlib.suppress(pickle.UnpicklingError):
            return SafeRules(None).find(module, name)
        root, _, rest = module.partition(".")
        target = f"flambeau.{rest}".rstrip(".") if root == "torch" else module
        base: Any = super()
        return base.find_class(target, name)  # which knows Python 2's names

    def persistent_load(self, pid: Any) -> Any:
        return self.storages(pid)


def _trusting(module: Any, options: dict[str, Any]) -> Unpickler:
    """Return what makes an unpickler of a module, which is Python's or takes its place.

    Args:
        module: pickle, dill or the like; None: pickle.
        options: what its unpickler takes beside a file.
    """
    kind: Any = type("Unpickler", (_Trusting, (module or pickle).Unpickler), {})

    def make(file: Any, storages: Any) -> Any:
        made = kind(file, **{"encoding": "utf-8", **options})
        made.storages = storages
        return made

    return make


def _only_weights(wanted: bool | None, pickle_module: Any) -> bool:
    """Return whether a file is not trusted, by the argument and the environment's two variables."""
    always, never = (
        os.environ.get(f"TORCH_FORCE_{word}_LOAD", "0").lower() in ("1", "y", "yes", "true")
        for word in ("WEIGHTS_ONLY", "NO_WEIGHTS_ONLY")
    )
    if always and never:
        raise RuntimeError(
            "load: Only one of TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD "
            "is expected in the environment, got both"
        )
    if always:
        only = True
    elif wanted is None and never:
        warnings.warn(
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set and weights_only was not given: load takes it as False",
            stacklevel=3,
        )
        only = False
    else:
        only = pickle_module is None if wanted is None else wanted
    if only and pickle_module is not None:
        raise RuntimeError("load: weights_only=True excludes an explicit pickle_module; pass one of them")
    return only


class _Storages:
    """The storages of an archive, each read once, when the pickle first refers to it.

    Args:
        archive: the file.
        root: the directory in it.
        place: gives a storage its device.
        mapped: the file as memory, if storages are to lie there.
    """

    def __init__(self, archive: Reader, root: str, place: Any, mapped: Any) -> None:
        self.archive, self.root, self.place, self.mapped = archive, root, place, mapped
        self.little = _is_little_endian(archive, root)
        self.known: dict[str, Storage] = {}

    def __call__(self, pid: Any) -> TypedStorage:
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage":
            raise RuntimeError(f"load: unknown persistent id {str(pid)[:80]}")
        _, dtype, key, location, count = pid
        if not isinstance(dtype, _C.dtype) or not isinstance(key, str) or type(count) is not int:
            raise RuntimeError("load: a storage needs a dtype, a name and a number of elements")
        if key not in self.known:
            host = self._read(key)
            if not self.little:
                host.byteswap(dtype)
            self.known[key] = self.place(host, location)
        storage = self.known[key]
        if count != storage.nbytes() // dtype.itemsize:
            raise RuntimeError(
                f"load: storage {key!r} has {storage.nbytes()} bytes; the pickle says {count} of {dtype}"
            )
        return TypedStorage(wrap_storage=storage, dtype=dtype)

    def _read(self, key: str) -> Storage:
        name = f"{self.root}/data/{key}"
        size = self.archive.size(name)
        if skip_data.active:
            return storage_of(_C._empty_bytes(size))
        if self.mapped is not None and size:
            start = self.archive.offset(name)
            if start % ALIGNMENT == 0:
                return storage_of(_C._from_buffer(self.mapped, _C.uint8, size, start))
        out = _C._empty_bytes(size)
        self.archive.read_into(name, memoryview(out) if size else memoryview(bytearray()))
        return storage_of(out)


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read an object from a file that `save` or PyTorch wrote.

    Args:
        f: a path, or a file open for reading.
        map_location: where tensors go: a device; a dict from devices in the file to devices; or a function
            from a storage and its device in the file to a storage, or None for the default place. None means
            the CPU.
        pickle_module: the module whose Unpickler reads the object; such files are trusted.
        weights_only: whether to refuse everything but tensors and plain containers. A file that is trusted
            can run any code. None means True without `pickle_module`. The environment variable
            TORCH_FORCE_WEIGHTS_ONLY_LOAD=1 forces True, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 makes False the
            default.
        mmap: whether values stay in the file, which is read when they are used and must not change meanwhile.
            Checksums are not verified, and changes of the tensors stay in memory. None means False.
        **pickle_load_args: options of the unpickler of trusted files, such as `encoding`.
    Returns: the object.
    Raises: UnpicklingError for names that are not allowed and for other formats; EOFError for an empty file;
        RuntimeError for a damaged archive, or one with compressed records; ValueError if `mmap` is True and
        `f` is not a path.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> flambeau.save({"weight": flambeau.ones(2)}, file)
        >>> file.seek(0)
        0
        >>> flambeau.load(file)
        {'weight': tensor([1., 1.])}
    """
    if mmap and not isinstance(f, str | os.PathLike):
        raise ValueError(f"load: expected f to be a file path for mmap=True, got {type(f).__name__}")
    only_weights = _only_weights(weights_only, pickle_module)
    unpickler = _trusting(pickle_module, pickle_load_args)
    with contextlib.ExitStack() as stack:
        stack.enter_context(rebuild.wrappers_at(map_location))
        file: Any = f
        if isinstance(f, str | os.PathLike):
            file = stack.enter_context(Path(f).open(opening_mode(mmap), buffering=0))
        start = _start_of(file)
        if start != _ZIP:
            return _load_older(file, start, placing(map_location), only_weights, unpickler, mmap)
        archive = Reader(Tail(file) if file.tell() else file)
        root = _root(archive)
        storages = _Storages(archive, root, placing(map_location), mapped(file) if mmap else None)
        text = archive.read(f"{root}/data.pkl")
        if not only_weights:
            return unpickler(io.BytesIO(text), storages).load()
        with _advised():
            return Interpreter(text, SafeRules(storages)).run()


@contextlib.contextmanager
def _advised() -> Iterator[None]:
    """Extend the error for a refused file by the ways to read the file."""
    try:
        yield
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(
            f"load: Weights only load failed: {error}. Allow a name by "
            "serialization.add_safe_globals, or load the file with weights_only=False if you trust "
            "its source: that can run any code."
        ) from error


def _start_of(file: Any) -> bytes:
    position = file.tell()
    start: bytes = file.read(4)
    file.seek(position)
    if not start:
        raise EOFError(f"load: Ran out of input: the file ends at its position, {position}")
    return start


def _is_zipfile(f: Any) -> bool:
    """Whether a file has a zip archive from its position on."""
    position = f.tell()
    start = f.read(len(_ZIP))
    f.seek(position)
    return bool(start == _ZIP)


def _load_older(
    file: Any, start: bytes, place: Any, only_weights: bool, unpickler: Unpickler, mmap: bool | None
) -> Any:
    """Read a file that PyTorch wrote before 1.6."""
    if mmap:
        raise RuntimeError("load: mmap can only be used for the zip format, which save() writes by default")
    if is_tar(file):
        if only_weights:
            raise RuntimeError("load: the legacy .tar format needs weights_only=False, which trusts the file")
        return load_tar(file, place, unpickler)
    if not is_stream(start):
        raise pickle.UnpicklingError("load: expected a file in one of PyTorch's formats, got another one")
    if not only_weights:
        return load_stream(file, place, False, unpickler)
    with _advised():
        return load_stream(file, place, True, unpickler)


def _root(archive: Reader) -> str:
    """Return the directory of the archive, whose name is the writer's choice."""
    roots = [name.removesuffix("/data.pkl") for name in archive.records if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise RuntimeError(f"load: expected one record data.pkl, found {len(roots)}: file not found")
    return roots[0]


def _is_little_endian(archive: Reader, root: str) -> bool:
    if f"{root}/byteorder" not in archive.records:
        return get_default_load_endianness() is not LoadEndianness.BIG
    order = archive.read(f"{root}/byteorder")
    if order not in (b"little", b"big"):
        raise ValueError(f"load: expected byteorder little or big, got {order[:10]!r} in the file")
    return order == b"little"


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | IO[bytes]) -> list[str]:
    """Return the names in a file that ``load(weights_only=True)`` would refuse.

    Args:
        f: a path, or a file open for reading, of the format that `save` writes by default.
    Returns: a list of dotted names.
    Raises: ValueError for another format.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> flambeau.save(flambeau.ones(2), file)
        >>> _ = file.seek(0)
        >>> flambeau.serialization.get_unsafe_globals_in_checkpoint(file)
        []
    """
    with contextlib.ExitStack() as stack:
        file: Any = f
        if isinstance(f, str | os.PathLike):
            file = stack.enter_context(Path(f).open("rb", buffering=0))
        if _start_of(file) != _ZIP:
            raise ValueError(
                f"get_unsafe_globals_in_checkpoint: expected a file in save()'s zip format, got {file!r}"
            )
        archive = Reader(Tail(file) if file.tell() else file)
        return refused_names(archive.read(f"{_root(archive)}/data.pkl"))


__getattr__, __dir__ = attributes(__name__)
