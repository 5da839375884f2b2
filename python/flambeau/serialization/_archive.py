"""Zip archives of uncompressed records, as PyTorch's format has them.

Reading is strict: what a record claims to be is compared with what the file holds before memory is
allocated for it. Writing is one pass, so that a pipe can be the target.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flambeau import _C

# Where the CPU can multiply without carry, 10 times as fast as zlib's.
_crc32: Callable[[Any, int], int] = getattr(_C, "_crc32", zlib.crc32)

ALIGNMENT = 64  # bytes; of the records' data in the file, so that a mapped file can serve as memory
_CHUNK = 1 << 20  # bytes at once: a chunk is still in the cache when its checksum is computed
_HEADER = struct.Struct("<4sHHHHHLLLHH")
_ENTRY = struct.Struct("<4sHHHHHHLLLHHHHHLL")
_LARGE = 0xFFFFFFFF  # marks that the extra field contains the value
_NAME_IS_UTF8, _SIZES_FOLLOW, _ENCRYPTED = 0x800, 0x8, 0x1
_FIRST_DAY = 33  # 1980-01-01: equal contents give equal files


@dataclass(frozen=True, slots=True)
class _Record:
    header: int  # its position
    size: int
    checksum: int
    limit: int  # no byte from here on belongs to the record


class Reader:
    """The records of an archive.

    Args:
        file: a seekable file of bytes; an archive that begins later than the file is accepted.
    Raises: RuntimeError for anything but a sound archive of stored records with different names.
    """

    def __init__(self, file: Any) -> None:
        self.file = file
        try:
            with zipfile.ZipFile(file) as archive:
                entries, end = archive.infolist(), archive.start_dir
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, OverflowError) as error:
            raise RuntimeError(f"load: the file is not a sound zip archive: {error}") from error
        self.records: dict[str, _Record] = {}
        limit = end
        for entry in sorted(entries, key=lambda e: e.header_offset, reverse=True):
            self._add(entry, limit)
            limit = entry.header_offset

    def _add(self, entry: zipfile.ZipInfo, limit: int) -> None:
        name = entry.orig_filename
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise RuntimeError(f"load: expected stored records only, got compressed record {name!r}")
        if entry.flag_bits & _ENCRYPTED:
            raise RuntimeError(f"load: expected plain records only, got encrypted record {name!r}")
        if name in self.records:
            raise RuntimeError(f"load: the archive has two records named {name!r}")
        if ".." in name.split("/") or name.startswith("/") or "\\" in name or "\0" in name:
            raise RuntimeError(f"load: expected a name of a record in the archive, got {name!r}")
        if not 0 <= entry.header_offset <= limit - _HEADER.size - entry.file_size:
            raise RuntimeError(f"load: record {name!r} reaches beyond its part of the file")
        self.records[name] = _Record(entry.header_offset, entry.file_size, entry.CRC, limit)

    def size(self, name: str) -> int:
        """Return the bytes of a record."""
        return self._record(name).size

    def _record(self, name: str) -> _Record:
        if name not in self.records:
            raise RuntimeError(f"load: the archive has no record {name!r}: file not found")
        return self.records[name]

    def offset(self, name: str) -> int:
        """Return the position of a record's first byte in the file."""
        record = self._record(name)
        self.file.seek(record.header)
        header = self.file.read(_HEADER.size)
        if len(header) < _HEADER.size or header[:4] != b"PK\3\4":
            raise RuntimeError(f"load: record {name!r} has no header")
        *_, name_size, extra_size = _HEADER.unpack(header)
        own_name = self.file.read(name_size)
        start = record.header + _HEADER.size + name_size + extra_size
        if own_name != name.encode() or start + record.size > record.limit:
            raise RuntimeError(
                f"load: the header of record {name!r} differs from the archive's directory; the file is "
                "damaged"
            )
        return start

    def read_into(self, name: str, target: memoryview) -> None:
        """Read a whole record into memory of its size.

        Raises: RuntimeError if the file ends early or the checksum differs.
        """
        record = self._record(name)
        self.file.seek(self.offset(name))
        checksum = done = 0
        while done < record.size:
            part = target[done : min(done + _CHUNK, record.size)]
            count = self._fill(part)
            if not count:
                raise RuntimeError(f"load: the file ends within record {name!r}")
            checksum = _crc32(part[:count], checksum)
            done += count
        if record.checksum and checksum != record.checksum:  # 0: the writer computed none
            raise RuntimeError(f"load: the checksum (CRC) of record {name!r} differs: the file is damaged")

    def _fill(self, part: memoryview) -> int:
        if hasattr(self.file, "readinto"):
            return self.file.readinto(part) or 0
        found = self.file.read(len(part))
        part[: len(found)] = found
        return len(found)

    def read(self, name: str) -> bytes:
        """Return a whole record."""
        out = bytearray(self.size(name))
        self.read_into(name, memoryview(out))
        return bytes(out)


class Writer:
    """Writes an archive from its first byte to its last.

    Args:
        write: takes each piece of the file in turn, all of it.
        checksums: whether records have checksums; else 0 stands in their place.
    """

    def __init__(self, write: Callable[[Any], None], checksums: bool = True) -> None:
        self.write, self.checksums = write, checksums
        self.position = 0
        self.entries: list[tuple[bytes, int, int, int]] = []  # name, header's position, size, checksum

    def _put(self, data: Any) -> None:
        self.write(data)
        self.position += len(data)

    def add(self, name: str, data: bytes | memoryview) -> None:
        """Append a record, whose data begins at a multiple of ALIGNMENT."""
        header, text, view = self.position, name.encode(), memoryview(data)
        large = len(view) >= _LARGE
        # The sizes follow the data, with 8 bytes each if the header has the field of large records.
        extra = struct.pack("<HHQQ", 1, 16, 0, 0) if large else b""
        padding = -(header + _HEADER.size + len(text) + len(extra) + 4) % ALIGNMENT
        extra += struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        flags, known = _NAME_IS_UTF8 | _SIZES_FOLLOW, _LARGE if large else 0
        fields = (b"PK\3\4", 45 if large else 20, flags, 0, 0, _FIRST_DAY, 0, known, known)
        self._put(_HEADER.pack(*fields, len(text), len(extra)) + text + extra)
        checksum = 0
        for begin in range(0, len(view), _CHUNK):
            part = view[begin : begin + _CHUNK]
            checksum = _crc32(part, checksum) if self.checksums else 0
            self._put(part)
        sizes = "<4sLQQ" if large else "<4sLLL"
        self._put(struct.pack(sizes, b"PK\7\x08", checksum, len(view), len(view)))
        self.entries.append((text, header, len(view), checksum))

    def close(self) -> None:
        """Append the directory."""
        start = self.position
        for text, header, size, checksum in self.entries:
            extra = b"".join(struct.pack("<Q", n) for n in (size, size, header) if n >= _LARGE)
            if extra:
                extra = struct.pack("<HH", 1, len(extra)) + extra
            flags = _NAME_IS_UTF8 | _SIZES_FOLLOW
            version, shown = (45 if extra else 20), min(size, _LARGE)
            fields = (b"PK\1\2", version, version, flags, 0, 0, _FIRST_DAY, checksum, shown, shown)
            lengths = (len(text), len(extra), 0, 0, 0)
            self._put(_ENTRY.pack(*fields, *lengths, 0, min(header, _LARGE)) + text + extra)
        self._put(self._end(start, self.position - start, len(self.entries)))

    def _end(self, start: int, size: int, count: int) -> bytes:
        out = b""
        if count >= 0xFFFF or start >= _LARGE or size >= _LARGE:
            fields = (44, 45, 45, 0, 0, count, count, size, start)
            out += struct.pack("<4sQHHLLQQQQ", b"PK\6\6", *fields)
            out += struct.pack("<4sLQL", b"PK\6\7", 0, self.position, 1)
        shown = min(count, 0xFFFF)
        ends = (0, 0, shown, shown, min(size, _LARGE), min(start, _LARGE), 0)
        return out + struct.pack("<4sHHHHLLH", b"PK\5\6", *ends)
