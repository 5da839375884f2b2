"""Files of the format safetensors: 8 bytes with the length of a header, the header as JSON, and the values.

Files are not trusted. The header is checked as a whole before a value is read: values fill the rest of the
file without gaps, and each has the number of bytes of its dtype and shape.

Source: https://github.com/huggingface/safetensors, section "Format"
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau.serialization._replacement import replacing

DTYPES: dict[str, Any] = {
    "F64": flambeau.float64,
    "F32": flambeau.float32,
    "F16": flambeau.float16,
    "BF16": flambeau.bfloat16,
    "F8_E4M3": flambeau.float8_e4m3fn,
    "F8_E5M2": flambeau.float8_e5m2,
    "F8_E8M0": flambeau.float8_e8m0fnu,
    "C64": flambeau.complex64,
    "I64": flambeau.int64,
    "I32": flambeau.int32,
    "I16": flambeau.int16,
    "I8": flambeau.int8,
    "U64": flambeau.uint64,
    "U32": flambeau.uint32,
    "U16": flambeau.uint16,
    "U8": flambeau.uint8,
    "BOOL": flambeau.bool,
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_LARGEST_HEADER = 100_000_000  # bytes, as of the format's own library
_ALIGNMENT = 8  # bytes, of the values' begin
_INFO = "__metadata__"


@dataclass(frozen=True)
class Entry:
    """A tensor in a file.

    Args:
        dtype: of the elements.
        shape: the sizes.
        begin: the first byte in the file.
        end: the byte after the last one.
    """

    dtype: Any
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """What a file holds.

    Args:
        entries: the tensors by name.
        info: texts by key.
    """

    entries: dict[str, Entry]
    info: dict[str, str]


def dtype_name(name: str, dtype: Any) -> str:
    """Return the format's name of a dtype. Raises: ValueError if it has none."""
    if dtype not in _NAMES:
        raise ValueError(f"save: expected a dtype of safetensors for {name!r}, got {dtype}")
    return _NAMES[dtype]


# --- reading -------------------------------------------------------------------------------------------


def _refuse(path: Path, expected: str, got: object) -> RuntimeError:
    text = repr(got)
    return RuntimeError(f"load: expected {expected} in {path}, got {text[:80]}")


def read_header(path: Path) -> Header:
    """Return what a file holds. Raises: RuntimeError if it is no file of the format."""
    if not path.is_file():  # opening a pipe would wait for its writer
        raise RuntimeError(f"load: expected a file at {path}, got something else")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(8)
        length = struct.unpack("<Q", first)[0] if len(first) == 8 else -1
        if not 2 <= length <= min(size - 8, _LARGEST_HEADER):
            raise _refuse(path, "the length of a header", length)
        text = file.read(length)
    if len(text) != length:
        raise _refuse(path, f"a header of {length} bytes", len(text))
    table = _parsed(path, text)
    info = table.pop(_INFO, {})
    if not isinstance(info, dict) or not all(isinstance(value, str) for value in info.values()):
        raise _refuse(path, "texts as __metadata__", info)
    entries = {name: _entry(path, name, value, 8 + length) for name, value in table.items()}
    _check_places(path, entries, 8 + length, size)
    return Header(entries, info)


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError(f"load: expected {len(found)} different keys, got {len(pairs)} keys")
        return found

    try:
        table = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise _refuse(path, "a header in JSON", str(error)) from None
    if not isinstance(table, dict) or not text.startswith(b"{"):
        raise _refuse(path, "a header in JSON with a table", type(table).__name__)
    return table


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _entry(path: Path, name: str, value: Any, base: int) -> Entry:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise _refuse(path, f"dtype, shape and data_offsets of {name!r}", value)
    dtype, shape, places = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise _refuse(path, f"a known dtype of {name!r}", dtype)
    if not isinstance(shape, list) or not all(map(_is_count, shape)) or len(shape) > 64:
        raise _refuse(path, f"sizes of {name!r}", shape)
    if not isinstance(places, list) or len(places) != 2 or not all(map(_is_count, places)):
        raise _refuse(path, f"two data_offsets of {name!r}", places)
    needed = math.prod(shape) * DTYPES[dtype].itemsize
    if places[1] - places[0] != needed:
        raise _refuse(path, f"{needed} bytes of {name!r}", places)
    return Entry(DTYPES[dtype], tuple(shape), base + places[0], base + places[1])


def _check_places(path: Path, entries: dict[str, Entry], begin: int, size: int) -> None:
    """Raise RuntimeError unless the values fill the file from `begin` on, without gaps."""
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != begin:
            raise _refuse(path, f"the values of {name!r} at byte {begin}", entry.begin)
        begin = entry.end
    if begin != size:
        raise _refuse(path, f"values up to byte {begin}", size)


def read_tensor(path: Path, entry: Entry) -> Tensor:
    """Return the values of a tensor. Raises: RuntimeError if the file is shorter than its header says."""
    if entry.begin == entry.end:
        return flambeau.empty(entry.shape, dtype=entry.dtype)
    data = bytearray(entry.end - entry.begin)
    with path.open("rb") as file:
        file.seek(entry.begin)
        count = file.readinto(data)
    if count != len(data):
        raise _refuse(path, f"{len(data)} bytes of values", count)
    flat: Tensor = flambeau.frombuffer(data, dtype=flambeau.uint8)
    return flat.view(entry.dtype).view(entry.shape)


# --- writing -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Value:
    """A tensor to write.

    Args:
        name: its name in the file.
        dtype: of the elements.
        shape: the sizes.
        get: returns the values; one tensor is there at a time.
    """

    name: str
    dtype: Any
    shape: tuple[int, ...]
    get: Callable[[], Tensor]

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        size: int = math.prod(self.shape) * self.dtype.itemsize
        return size


def write(path: Path, values: Sequence[Value], info: dict[str, str]) -> None:
    """Write a file; one of the same name stays whole until the new one has reached the disk.

    Values with large elements come first, so that each begins at a multiple of its element's size.
    """
    ordered = sorted(values, key=lambda value: (-value.dtype.itemsize, value.name))
    table: dict[str, Any] = {_INFO: info}
    end = 0
    for value in ordered:
        places = [end, end + value.nbytes]
        name = dtype_name(value.name, value.dtype)
        table[value.name] = {"dtype": name, "shape": list(value.shape), "data_offsets": places}
        end = places[1]
    header = json.dumps(table, separators=(",", ":")).encode("utf-8")
    header += b" " * (-len(header) % _ALIGNMENT)
    with replacing(path) as file:
        _write_all(file, memoryview(struct.pack("<Q", len(header)) + header))
        for value in ordered:
            own = value.get().detach().cpu().resolve_conj().resolve_neg().contiguous()
            if own.numel():
                # The elements as bytes: uint8 is the dtype that memory views know of all.
                _write_all(file, memoryview(own.reshape(-1).view(flambeau.uint8).numpy()))


def _write_all(file: Any, data: memoryview) -> None:
    while data:  # a raw file may write less than it gets
        data = data[file.write(data) :]
