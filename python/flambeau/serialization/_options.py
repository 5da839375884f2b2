"""Choices about files that hold for the process, or for a block."""

from __future__ import annotations

import mmap
from enum import Enum
from typing import Any


class LoadEndianness(Enum):
    """Byte orders of files that do not state one, for `set_default_load_endianness`.

    Example:
        >>> [order.name for order in flambeau.serialization.LoadEndianness]
        ['NATIVE', 'LITTLE', 'BIG']
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class SourceChangeWarning(Warning):
    """Warning that the source of a module differs from the source that was saved with it.

    Example:
        >>> issubclass(flambeau.serialization.SourceChangeWarning, Warning)
        True
    """


_endianness: LoadEndianness | None = None
_checksums = True
_mapping = mmap.MAP_PRIVATE


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the byte order that `load` assumes for files that state none.

    Returns: a `LoadEndianness`, or None for the format's default, little-endian.

    Example:
        >>> flambeau.serialization.get_default_load_endianness()
    """
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order that `load` assumes for files that state none.

    Args:
        endianness: the byte order. None means the format's default, little-endian.
    Returns: None.
    Raises: TypeError if it is not a `LoadEndianness`.

    Example:
        >>> flambeau.serialization.set_default_load_endianness(None)
    """
    global _endianness
    if not isinstance(endianness, LoadEndianness | None):
        raise TypeError(
            f"set_default_load_endianness: expected a LoadEndianness or None, got {type(endianness).__name__}"
        )
    _endianness = endianness


def get_crc32_options() -> bool:
    """Return whether `save` computes checksums.

    Returns: True or False.

    Example:
        >>> flambeau.serialization.get_crc32_options()
        True
    """
    return _checksums


def set_crc32_options(compute_crc32: bool) -> None:
    """Set whether `save` computes checksums (CRC32) of what it writes.

    Args:
        compute_crc32: False writes zeros in place of the checksums, which is faster; zip programs reject such
            files.
    Returns: None.

    Example:
        >>> flambeau.serialization.set_crc32_options(True)
    """
    global _checksums
    _checksums = compute_crc32


def get_default_mmap_options() -> int:
    """Return the flag with which ``load(mmap=True)`` maps files.

    Returns: ``mmap.MAP_PRIVATE`` or ``mmap.MAP_SHARED``.

    Example:
        >>> import mmap
        >>> flambeau.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
        True
    """
    return _mapping


class set_default_mmap_options:
    """Setting of how ``load(mmap=True)`` maps files, at once and, as a context manager, for a block.

    Args:
        flags: ``mmap.MAP_PRIVATE`` keeps changes of the tensors in memory. ``mmap.MAP_SHARED`` writes them to
            the file, which must be writable; its checksums remain those of the old values, so only
            ``load(mmap=True)`` reads it again.
    Raises: ValueError for other flags.

    Example:
        >>> import mmap
        >>> with flambeau.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        ...     flambeau.serialization.get_default_mmap_options() == mmap.MAP_SHARED
        True
    """

    def __init__(self, flags: int) -> None:
        global _mapping
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                f"set_default_mmap_options: expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, got {flags}"
            )
        self.before = _mapping
        _mapping = flags

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        global _mapping
        _mapping = self.before


class skip_data:
    """Context manager in which `save` writes zeros for the bytes of storages, and `load` does not read them.

    Args:
        materialize_fake_tensors: no effect.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> with flambeau.serialization.skip_data():
        ...     flambeau.save(flambeau.ones(2), file)
        >>> file.seek(0)
        0
        >>> flambeau.load(file)
        tensor([0., 0.])
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
