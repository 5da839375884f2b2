"""Tensors in messages: a table of dtypes, sizes and strides, and the bytes of their elements.

A tensor that is dense keeps its strides; any other is copied and becomes contiguous. Entries are checked
against each other before memory is allocated.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import flambeau
from flambeau import Tensor
from flambeau.nn import Parameter

# The order is part of the protocol.
_NAMES = (
    "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 bool complex32 complex64 complex128 "
    "uint16 uint32 uint64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz"
).split()
_DTYPES = tuple(getattr(flambeau, name) for name in _NAMES)
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}
_ENTRY = struct.Struct("<BBH")  # dtype, flags, dimensions
_REQUIRES_GRAD, _PARAMETER = 1, 2
MOST_DIMENSIONS = 64
MESSAGE_LIMIT = 1 << 36  # bytes of all tensors of a message


class Malformed(ValueError):
    """What came is not a message."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the table says about a tensor."""

    dtype: flambeau.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    is_parameter: bool

    @property
    def size(self) -> int:
        """The number of bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def pack(self) -> bytes:
        """Return the bytes of the entry."""
        flags = _REQUIRES_GRAD * self.requires_grad | _PARAMETER * self.is_parameter
        head = _ENTRY.pack(_CODES[self.dtype], flags, len(self.shape))
        return head + struct.pack(f"<{2 * len(self.shape)}q", *self.shape, *self.strides)


def is_sent_as_bytes(value: object) -> bool:
    """Whether a value is a plain tensor with memory of the host."""
    return (
        type(value) in (Tensor, Parameter)
        and value.layout == flambeau.strided  # type: ignore[attr-defined]
        and value.device.type == "cpu"  # type: ignore[attr-defined]
        and value.dtype in _CODES  # type: ignore[attr-defined]
        and value.dim() <= MOST_DIMENSIONS  # type: ignore[attr-defined]
    )


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the elements fill a block of memory, in any order of dimensions."""
    expected = 1
    for stride, size in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def describe(tensor: Tensor) -> tuple[Entry, Tensor]:
    """Return the entry of a tensor, and a dense tensor with its elements."""
    dense = tensor.detach().resolve_conj().resolve_neg()
    if not _is_dense(tuple(dense.shape), tuple(dense.stride())):
        dense = dense.contiguous()
    is_parameter = type(tensor) is Parameter
    return Entry(
        dense.dtype, tuple(dense.shape), tuple(dense.stride()), tensor.requires_grad, is_parameter
    ), dense


def memory(dense: Tensor) -> memoryview:
    """Return the memory of a dense tensor as bytes."""
    if dense.numel() == 0:
        return memoryview(bytearray())
    return memoryview(dense.as_strided((dense.numel(),), (1,)).view(flambeau.uint8))  # type: ignore[arg-type]


def read_table(table: bytes) -> list[Entry]:
    """Return the entries of a table. Raises: Malformed if they do not fit together or are too large."""
    entries, at, total = [], 0, 0
    while at < len(table):
        if at + _ENTRY.size > len(table):
            raise Malformed("expected whole entries of tensors, got a part")
        code, flags, dimensions = _ENTRY.unpack_from(table, at)
        at += _ENTRY.size
        if code >= len(_DTYPES) or dimensions > MOST_DIMENSIONS or at + 16 * dimensions > len(table):
            raise Malformed("expected a dtype, and a size and a stride per dimension, got others")
        numbers = struct.unpack_from(f"<{2 * dimensions}q", table, at)
        at += 16 * dimensions
        shape, strides = numbers[:dimensions], numbers[dimensions:]
        if any(size < 0 for size in shape) or (math.prod(shape) and not _is_dense(shape, strides)):
            raise Malformed("expected a dense tensor, got gaps")
        entry = Entry(_DTYPES[code], shape, strides, bool(flags & _REQUIRES_GRAD), bool(flags & _PARAMETER))
        total += entry.size
        if total > MESSAGE_LIMIT:
            raise Malformed(f"expected at most {MESSAGE_LIMIT} bytes of tensors, got more")
        entries.append(entry)
    return entries


def allocate(entry: Entry) -> Tensor:
    """Return a tensor for elements that will be received."""
    if math.prod(entry.shape) == 0:
        return flambeau.empty(entry.shape, dtype=entry.dtype, device="cpu")
    return flambeau.empty_strided(entry.shape, entry.strides, dtype=entry.dtype, device="cpu")
