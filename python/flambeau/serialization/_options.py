"""Choices about files that hold for the process, or for a block."""

from __future__ import annotations

import mmap
from enum import Enum
from typing import Any


class LoadEndianness(Enum):
    """Order of bytes in files that do not name it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class SourceChangeWarning(Warning):
    """Said where a module's source differs from the one that was saved with it."""


_endianness: LoadEndianness | None = None
_checksums = True
_mapping = mmap.MAP_PRIVATE


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the order of bytes that `load` takes for files that name none; None: the format's, little."""
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Choose the order of bytes of files that name none.

    Args:
        endianness: None: the format's default, which is little-endian.
    Raises: TypeError for another kind of value.
    """
    global _endianness
    if not isinstance(endianness, LoadEndianness | None):
        raise TypeError(f"expected a LoadEndianness or None, got {type(endianness).__name__}")
    _endianness = endianness


def get_crc32_options() -> bool:
    """Return whether `save` computes checksums of what it writes."""
    return _checksums


def set_crc32_options(compute_crc32: bool) -> None:
    """Choose whether `save` computes checksums (CRC32) of what it writes.

    Args:
        compute_crc32: False: files have zeros in their place, which zip programs refuse.
    """
    global _checksums
    _checksums = compute_crc32


def get_default_mmap_options() -> int:
    """Return the flag of `mmap` under which ``load(mmap=True)`` maps files."""
    return _mapping


class set_default_mmap_options:
    """Choose how ``load(mmap=True)`` maps files: at once, and back at the end of the block if it is one.

    Args:
        flags: ``mmap.MAP_PRIVATE``: what is written to the tensors stays in memory. ``mmap.MAP_SHARED``: it
            is written to the file, which must be writable. Its checksums stay those of the old values, so
            that only ``load(mmap=True)`` reads it again.
    Raises: ValueError for other flags.
    """

    def __init__(self, flags: int) -> None:
        global _mapping
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(f"expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, got {flags}")
        self.before = _mapping
        _mapping = flags

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        global _mapping
        _mapping = self.before


class skip_data:
    """Within the block `save` leaves zeros for the bytes of storages, and `load` does not read them.

    Args:
        materialize_fake_tensors: accepted for compatibility.
    """

    active = False

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self.before = skip_data.active
        skip_data.active = True

    def __exit__(self, *_: object) -> None:
        skip_data.active = self.before


def mapped(file: Any) -> mmap.mmap:
    """Map a file as the options say."""
    shared = _mapping == mmap.MAP_SHARED
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)


def opening_mode(mapping: bool | None) -> str:
    """Return the mode in which `load` opens a path."""
    return "r+b" if mapping and _mapping == mmap.MAP_SHARED else "rb"
