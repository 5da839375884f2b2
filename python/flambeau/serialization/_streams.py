"""Writes the format of PyTorch 0.2 to 1.5, and reads archives that begin within a file."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from typing import Any

from ._legacy import STREAM_PROTOCOL, STREAM_START
from ._pickler import Pickler

_MACHINE = {
    "protocol_version": STREAM_PROTOCOL,
    "little_endian": True,
    "type_sizes": {"short": 2, "int": 4, "long": 4},
}


class _StreamPickler(Pickler):
    """A pickler whose storages have one dtype each, as their elements are counted in the file."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.counts: dict[str, tuple[Any, int]] = {}

    def persistent_id(self, obj: Any) -> Any:
        found = super().persistent_id(obj)
        if found is None:
            return None
        _, kind, key, _, count = found
        if self.counts.setdefault(key, (kind, count)) != (kind, count):
            raise RuntimeError("save: this format cannot hold a storage that is used under different types")
        return *found, None  # no view of another storage


def save_stream(obj: Any, write: Callable[[Any], None], data_of: Callable[[Any], memoryview]) -> None:
    """Write an object in the format of before 1.6: pickles, then the elements of each storage."""
    text = io.BytesIO()
    for part in (STREAM_START, STREAM_PROTOCOL, _MACHINE):
        pickle.dump(part, text, protocol=2)
    pickler = _StreamPickler(text)
    pickler.dump(obj)
    keys = sorted(pickler.storages.values())
    pickle.dump(keys, text, protocol=2)
    write(text.getvalue())
    storages = {key: storage for storage, key in pickler.storages.items()}
    for key in keys:
        write(pickler.counts[key][1].to_bytes(8, "little"))
        write(data_of(storages[key]))


class Tail(io.RawIOBase):
    """The part of a file from its present position on, as a file.

    Args:
        file: a seekable file of bytes.
    """

    def __init__(self, file: Any) -> None:
        self.file, self.start = file, file.tell()

    def seekable(self) -> bool:
        """True."""
        return True

    def readable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Return the position in the part."""
        return self.file.tell() - self.start

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position in the part."""
        self.file.seek(offset + self.start if whence == os.SEEK_SET else offset, whence)
        return self.tell()

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes."""
        return self.file.read(-1 if size is None else size)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes and return their number."""
        found = self.file.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)
