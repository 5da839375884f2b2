"""Files that PyTorch wrote before 1.6, and what its plain pickles of tensors hold.

The stream (PyTorch 0.2 to 1.5): pickles of a magic number, a version, facts about the machine, the object,
and the keys of its storages; then for each key the number of elements as int64 and the elements. The older
archive is a tar of three streams: storages, tensors and the object.
"""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._object.storage import Storage, _part, storage_of
from flambeau._object.typed_storage import TypedStorage

from ._allowed import SafeRules
from ._opcodes import Interpreter

STREAM_START = 0x1950A86A20F9469CFC6C
STREAM_PROTOCOL = 1001
Place = Callable[[Storage, Any], Storage]
Unpickler = Callable[[Any, Any], Any]  # of a file and a table of storages


def is_stream(start: bytes) -> bool:
    """Whether a file that starts so is a pickle of protocol 2 or later."""
    return start[:1] == pickle.PROTO


def is_tar(file: Any) -> bool:
    """Whether a file is a tar archive."""
    start = file.tell()
    header = file.read(tarfile.BLOCKSIZE)
    file.seek(start)
    try:
        tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


class _Stream:
    """The bytes of a file, read from the front.

    Args:
        data: the bytes.
        rules: what its pickles may do; None: anything.
        unpickler: makes an unpickler of a file, if there are no rules.
    """

    def __init__(self, data: bytes, storages: Any, rules: SafeRules | None, unpickler: Unpickler) -> None:
        self.data, self.storages, self.rules, self.unpickler = data, storages, rules, unpickler
        self.position = 0

    def pickled(self) -> Any:
        """Return the next object."""
        if self.position >= len(self.data):
            raise EOFError("load: Ran out of input")
        if self.rules is not None:
            interpreter = Interpreter(self.data, self.rules)
            interpreter.position = self.position
            found = interpreter.run()
            self.position = interpreter.position
            return found
        file = io.BytesIO(self.data)
        file.seek(self.position)
        found = self.unpickler(file, self.storages).load()
        self.position = file.tell()
        return found

    def take(self, count: int) -> memoryview:
        """Return the next bytes."""
        found = memoryview(self.data)[self.position : self.position + count]
        if len(found) < count:
            missing = count - len(found)
            raise RuntimeError(
                f"load: expected {missing} more bytes, got unexpected EOF. The file might be corrupted."
            )
        self.position += count
        return found

    def numbers(self, form: str) -> tuple[int, ...]:
        """Return the next integers."""
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def fill(self, storage: Storage, itemsize: int) -> None:
        """Read the elements of a storage, behind their number."""
        (count,) = self.numbers("<q")
        if count * itemsize != storage.nbytes():
            raise RuntimeError(
                f"load: a storage has {storage.nbytes()} bytes; the file has {count} elements of {itemsize}"
            )
        source = self.take(storage.nbytes())
        if len(source):
            target: Any = (
                storage.tensor
            )  # has the buffer protocol, which stubs can express from Python 3.12 on
            memoryview(target)[:] = source


class _Storages:
    """The storages that a stream's pickle names; their elements come behind it.

    Args:
        place: gives a storage its device.
        limit: bytes of the file, which no storage exceeds.
    """

    def __init__(self, place: Place, limit: int) -> None:
        self.place, self.limit = place, limit
        self.host: dict[str, tuple[Storage, _C.dtype]] = {}
        self.placed: dict[str, Storage] = {}

    def __call__(self, pid: Any) -> Any:
        if not isinstance(pid, tuple) or not pid:
            raise RuntimeError(f"load: unknown persistent id {str(pid)[:80]}")
        kind, *facts = pid
        kind = kind.decode() if isinstance(kind, bytes) else kind
        if kind == "module" and facts:  # (class, file, source): what the class was when it was saved
            return facts[0]
        if kind != "storage" or len(facts) != 5:
            raise RuntimeError(f"load: unknown persistent id {str(pid)[:80]}")
        dtype, key, location, count, view = facts
        if not isinstance(dtype, _C.dtype) or type(count) is not int or not isinstance(key, str):
            raise RuntimeError("load: a storage needs a dtype, a name and a number of elements")
        if key not in self.placed:
            self._make(key, dtype, location, count)
        storage = self.placed[key]
        return TypedStorage(wrap_storage=_seen(storage, dtype, view), dtype=dtype)

    def _make(self, key: str, dtype: _C.dtype, location: Any, count: int) -> None:
        size = count * dtype.itemsize
        if not 0 <= size <= self.limit:
            raise RuntimeError(f"load: storage {key!r} claims {size} bytes of a file of {self.limit}")
        self.limit -= size
        host = storage_of(_C._empty_bytes(size))
        self.host[key] = host, dtype
        self.placed[key] = self.place(host, location)

    def read(self, stream: _Stream, little: bool) -> None:
        """Read all elements."""
        keys = stream.pickled()
        if not isinstance(keys, list) or set(keys) != set(self.host) or len(keys) != len(self.host):
            raise RuntimeError("load: the file lists other storages than its pickle refers to")
        for key in keys:
            host, dtype = self.host[key]
            stream.fill(host, dtype.itemsize)
            if not little:
                host.byteswap(dtype)
            if self.placed[key] is not host:
                self.placed[key].copy_(host)


def _seen(storage: Storage, dtype: _C.dtype, view: Any) -> Storage:
    """Return the part of a storage that (key, first element, elements) describes; all of it for None."""
    if view is None:
        return storage
    _, start, count = view
    if not (type(start) is int and type(count) is int and start >= 0 and count >= 0):
        raise RuntimeError("load: a view of a storage needs a place and a number of elements")
    width = dtype.itemsize
    if (start + count) * width > storage.nbytes():
        raise RuntimeError("load: a view exceeds its storage")
    return _part(storage, slice(start * width, (start + count) * width))


def load_stream(file: Any, place: Place, weights_only: bool, unpickler: Unpickler) -> Any:
    """Read a stream.

    Raises: RuntimeError if it is no such stream, or damaged; UnpicklingError for names that are not allowed.
    """
    start = file.tell()
    data = file.read()
    storages = _Storages(place, len(data))
    stream = _Stream(data, storages, SafeRules(storages) if weights_only else None, unpickler)
    if stream.pickled() != STREAM_START:
        raise RuntimeError("load: Invalid magic number; corrupt file?")
    version = stream.pickled()
    if version != STREAM_PROTOCOL:
        raise RuntimeError(f"load: Invalid protocol version: {version}")
    machine = stream.pickled()
    little = not isinstance(machine, dict) or machine.get("little_endian", True)
    found = stream.pickled()
    storages.read(stream, little)
    file.seek(start + stream.position)  # where another object may begin
    return found


# --- the tar archive ------------------------------------------------------------------------------------


def load_tar(file: Any, place: Place, unpickler: Unpickler) -> Any:
    """Read an archive of PyTorch 0.1, which is trusted.

    Raises: RuntimeError if it lacks a part or is damaged.
    """
    archive = tarfile.open(fileobj=file, mode="r:")

    def stream(name: str, known: Any) -> _Stream:
        try:
            part = archive.extractfile(name)
        except KeyError:
            part = None
        if part is None:
            raise RuntimeError(f"load: the archive has no part {name!r}")
        return _Stream(part.read(), known, None, unpickler)

    objects: dict[Any, Any] = {}
    _read_storages(stream("storages", None), objects, place)
    _read_tensors(stream("tensors", None), objects)

    def resolve(pid: Any) -> Any:
        if isinstance(pid, tuple):
            return pid[0]
        return objects[int(pid)]

    return stream("pickle", resolve).pickled()


def _read_storages(stream: _Stream, objects: dict[Any, Any], place: Place) -> None:
    for _ in range(stream.pickled()):
        key, location, dtype = stream.pickled()
        (count,) = struct.unpack_from("<q", stream.data, stream.position)
        if not 0 <= count * dtype.itemsize <= len(stream.data):
            raise RuntimeError("load: unexpected EOF. The file might be corrupted.")
        storage = storage_of(_C._empty_bytes(count * dtype.itemsize))
        stream.fill(storage, dtype.itemsize)
        objects[key] = TypedStorage(wrap_storage=place(storage, location), dtype=dtype)
    for key, root, start, count in stream.pickled():
        whole = objects[root]
        part = _seen(whole.untyped(), whole.dtype, (key, start, count))
        objects[key] = TypedStorage(wrap_storage=part, dtype=whole.dtype)


def _read_tensors(stream: _Stream, objects: dict[Any, Any]) -> None:
    for _ in range(stream.pickled()):
        key, storage, _kind = stream.pickled()
        dims, _padding = stream.numbers("<ii")
        size, stride = stream.numbers(f"<{dims}q"), stream.numbers(f"<{dims}q")
        (offset,) = stream.numbers("<q")
        typed = objects[storage]
        objects[key] = _C._rebuild(typed.untyped().tensor, typed.dtype, size, stride, offset)
