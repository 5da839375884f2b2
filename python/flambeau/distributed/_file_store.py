"""A store in a file: a log of changes, which each process reads under a lock.

A record is its length, a checksum, and the fields key and value; a record without a value removes the key.
A process that is killed while it writes leaves a torn record at the end, which the next writer cuts off.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from flambeau.distributed._errors import DistStoreError
from flambeau.distributed._store import Store
from flambeau.distributed._table import Table

__all__ = ["FileStore"]

_HEAD = struct.Struct("<III")  # bytes of the key, bytes of the value (or _REMOVED), checksum of both
_REMOVED = 0xFFFFFFFF
_MAXIMUM = 1 << 28  # bytes of a key or a value; a longer one is damage
_LOOK_EVERY = 0.005  # seconds between looks at the file in `wait`


def _record(key: str, value: bytes | None) -> bytes:
    name = key.encode()
    body = name + (value or b"")
    length = _REMOVED if value is None else len(value)
    return _HEAD.pack(len(name), length, zlib.crc32(body)) + body


class FileStore(Store):
    """Keys and values in a file that processes of one machine, or of machines with a shared file system,
    open.

    Args:
        file_name: the path of the file, which is created if it does not exist. A file of an earlier run must
            be removed first.
        world_size: the number of processes that use the file, which is removed when all of them have closed
            it; -1 and 0 keep it.

    Raises: DistStoreError if the file is not one of a store.

    Example:
        >>> import os, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> store = flambeau.distributed.FileStore(os.path.join(folder.name, "store"), 1)
        >>> store.set("key", "value")
        >>> store.get("key")
        b'value'
    """

    _CLOSED = "/closed"  # the number of processes that have closed the file

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._path, self._world_size = os.fspath(file_name), world_size
        self._table, self._end = Table(), 0
        self._lock = threading.Lock()
        self._owner = os.getpid()
        Path(self._path).touch()

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    def _read(self, file: BinaryIO) -> None:
        """Bring the table up to date with the file's whole records."""
        file.seek(self._end)
        data = file.read()
        at = 0
        while at + _HEAD.size <= len(data):
            name, length, checksum = _HEAD.unpack_from(data, at)
            size = 0 if length == _REMOVED else length
            if name > _MAXIMUM or size > _MAXIMUM:
                raise DistStoreError(
                    f"FileStore: expected a file of a store, got damaged contents in {self._path}"
                )
            body = data[at + _HEAD.size : at + _HEAD.size + name + size]
            if len(body) < name + size:
                break
            if zlib.crc32(body) != checksum:
                raise DistStoreError(
                    f"FileStore: expected a file of a store, got damaged contents in {self._path}"
                )
            key = body[:name].decode()
            if length == _REMOVED:
                self._table.values.pop(key, None)
            else:
                self._table.values[key] = body[name:]
            at += _HEAD.size + name + size
        self._end += at

    def _apply(self, operation: str, *arguments: Any) -> Any:
        if operation.startswith("queue_"):
            raise RuntimeError(f"Store.{operation}: expected a TCPStore or HashStore, got FileStore")
        with self._lock, Path(self._path).open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._read(file)
            if operation in ("get", "check"):
                return getattr(self._table, operation)(*arguments)
            if operation in ("num_keys", "list_keys"):
                keys = [key for key in self._table.values if key != self._CLOSED]
                return keys if operation == "list_keys" else len(keys)
            key = arguments[0]
            before = self._table.values.get(key)
            result = getattr(self._table, operation)(*arguments)
            after = self._table.values.get(key)
            if before != after or operation == "set":
                record = _record(key, after)
                file.truncate(self._end)
                file.seek(self._end)
                file.write(record)
                file.flush()
                self._end += len(record)
            return result

    def _wait(self, keys: list[str], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._apply("check", *keys):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_EVERY)
        return True

    def has_extended_api(self) -> bool:
        """Whether the store has queues as well: no."""
        return False

    def clone(self) -> FileStore:
        """Return a store of the same file, with a timeout of its own."""
        other = FileStore(self._path, -1)
        other._timeout = self._timeout
        return other

    def __del__(self) -> None:
        if getattr(self, "_world_size", 0) < 1 or self._owner != os.getpid():
            return
        try:
            if self._apply("add", self._CLOSED, 1) == self._world_size:
                Path(self._path).unlink(missing_ok=True)
        except OSError:
            pass  # the folder is gone


FileStore.__module__ = "flambeau.distributed"
