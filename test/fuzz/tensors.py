"""Tensors of every dtype in every layout, each cut from a pattern that is made once per process."""

from __future__ import annotations

import functools
import math
import random
from typing import TYPE_CHECKING

import flambeau

from .sparse_tensors import sparse_of

if TYPE_CHECKING:
    from .values import Call

DTYPES = (
    "float32", "float64", "int64", "bool", "complex64", "complex128",
    "bfloat16", "float16", "uint8", "int8", "int16", "int32", "uint16", "uint32", "uint64", "complex32",
)  # fmt: skip
FRACTIONAL = {"float32", "float64", "bfloat16", "float16", "complex64", "complex128", "complex32"}
SMALL = (0, 1, -1, 2, -2, 3, 4, 7)
KINDS = {"positions": (0, 1, 1, 2, -1), "degrees": (0, 1, 2, 3, 7)}
SIZES = (0, 1, 2, 3, 5)
LONG = (7, 16, 17, 33, 65, 130, 257, 1030)  # around whole vectors, and with a rest
HUGE = (2**31, 2**32, 2**40)  # on the meta device, whose kernels loop over nothing
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.5, 2.0, 1e-45, 1e30, math.inf, -math.inf, math.nan)
LAYOUTS = (
    "plain", "plain", "plain", "plain", "transposed", "strided", "offset", "rows with gaps",
    "expanded", "expanded", "overlapping", "channels last",
)  # fmt: skip
PATTERN = 8192  # elements
SPARSE = 16  # one of this many tensors is sparse


@functools.cache
def pattern(dtype: str, kind: str) -> flambeau.Tensor:
    """A row of elements: small ones, KINDS, fractions, bytes, or what is special about the dtype."""
    source = random.Random(f"{dtype} {kind}")
    as_dtype = getattr(flambeau, dtype)
    if kind == "bytes":  # a bool in memory is any byte
        return flambeau.tensor(source.choices(range(256), k=PATTERN), dtype=flambeau.uint8).view(as_dtype)
    if kind == "fractions":
        return flambeau.tensor([source.uniform(-2, 2) for _ in range(PATTERN)]).to(as_dtype)
    if kind == "special" and dtype in FRACTIONAL:
        return flambeau.tensor(source.choices(FLOATS, k=PATTERN), dtype=flambeau.float64).to(as_dtype)
    if kind == "special":
        limits = flambeau.iinfo(as_dtype)
        return flambeau.tensor(source.choices((0, 1, 2, limits.min, limits.max), k=PATTERN), dtype=as_dtype)
    numbers = source.choices(KINDS.get(kind, SMALL), k=PATTERN)
    return flambeau.tensor(numbers, dtype=flambeau.int64).to(as_dtype)


@functools.cache
def identities(dtype: str, n: int) -> flambeau.Tensor:
    """A row of identity matrices of n by n: they are definite, and have an inverse."""
    return flambeau.eye(n).flatten().repeat(PATTERN // (n * n)).to(getattr(flambeau, dtype))


def shape_of(call: Call) -> list[int]:
    """Up to five dimensions, some of them empty or 1, or all equal; rarely long or huge ones."""
    drawn = call.random()
    if drawn < 0.46:
        return [call.one_of(SIZES) for _ in range(call.below(5))]
    if drawn < 0.93:
        return [call.one_of((1, 2, 3, 3, 4))] * call.below(6)
    if drawn < 0.985 or not call.may_be_huge:
        others = LONG if call.is_plain else SIZES  # a transform may make a tensor of each element
        return [call.one_of(LONG), call.one_of(others)][: 1 + call.below(2)]
    return [*(call.one_of(SIZES) for _ in range(call.below(3))), call.one_of(HUGE)][:: call.one_of((1, -1))]


def _row_major(shape: list[int]) -> list[int]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return strides[::-1]


def _geometry(call: Call, shape: list[int], layout: str) -> tuple[list[int], int]:
    """Strides and offset."""
    strides = _row_major(shape)
    dims = len(shape)
    if layout == "transposed":
        return _row_major(shape[::-1])[::-1], 0
    if layout == "strided":
        return [2 * step for step in strides], 0
    if layout == "offset":  # elements that are not aligned as vectors
        return strides, 1 + call.below(3)
    if layout == "rows with gaps" and dims:
        return _row_major([*shape[:-1], shape[-1] + 1]), 0
    if layout == "expanded" and dims:
        one = call.below(dims + 1)  # one of the dimensions, or all
        return [0 if one in (dim, dims) else step for dim, step in enumerate(strides)], 0
    if layout == "overlapping":
        return [1] * dims, 0
    if layout == "channels last" and dims in (4, 5):
        inner = _row_major([shape[0], *shape[2:], shape[1]])
        return [inner[0], inner[-1], *inner[1:-1]], 0
    return strides, 0


def _elements(call: Call, shape: list[int], dtype: str, kind: str) -> flambeau.Tensor:
    if dtype == "bool" and call.one_in(4):
        return pattern(dtype, "bytes")
    if kind == "numbers":
        square = shape[-1] if len(shape) > 1 and shape[-1] == shape[-2] else 0
        if 1 < square < 90 and dtype in FRACTIONAL and call.one_in(4):
            return identities(dtype, square)
        kind = call.one_of(("small", "small", "fractions" if dtype in FRACTIONAL else "small", "special"))
    elif kind == "positions" and call.one_in(16):
        kind = "special"
    return pattern(dtype, "small" if kind == "special" and dtype == "bool" else kind)


def tensor_of(call: Call, shape: list[int], dtype: str, kind: str = "numbers") -> flambeau.Tensor:
    """A tensor of this shape, in memory that ends where its last element does."""
    if call.is_plain and kind == "numbers" and call.one_in(SPARSE) and math.prod(shape) <= PATTERN // 8:
        return sparse_of(call, shape, _elements(call, [], dtype, kind))
    strides, offset = _geometry(call, shape, call.one_of(LAYOUTS))
    if call.on_meta or call.one_in(40) or max(shape, default=0) in HUGE:
        return _meta(shape, strides, dtype)
    reach = offset + 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if 0 in shape:
        strides, offset, reach = _row_major(shape), 0, 0
    source = _elements(call, shape, dtype, kind)
    if reach > len(source):  # of two long dimensions
        source = source.repeat(reach // len(source) + 1)
    begin = 0 if kind == "numbers" and call.one_in(2) else call.below(max(len(source) - reach, 0) + 1)
    return source.narrow(0, begin, reach).clone().as_strided(shape, strides, offset)


def _meta(shape: list[int], strides: list[int], dtype: str) -> flambeau.Tensor:
    as_dtype = getattr(flambeau, dtype)
    try:
        return flambeau.empty_strided(shape, strides, dtype=as_dtype, device="meta")
    except RuntimeError:  # more bytes than there are numbers for
        return flambeau.empty(shape[:1], dtype=flambeau.bool, device="meta")


def related(call: Call, other: flambeau.Tensor) -> flambeau.Tensor:
    """Another argument again, or a view of it."""
    drawn = call.below(5)
    if drawn == 1:
        return other.detach()
    if other.is_sparse:  # a view of damaged indices is refused
        return other
    if drawn == 2 and other.dim() > 1:
        return other.transpose(0, -1)
    if drawn == 3 and other.dim() > 0 and other.shape[0] > 1:
        return other[1:]
    if drawn == 4:
        return other.unsqueeze(-1)
    return other


def with_history(call: Call, tensor: flambeau.Tensor) -> flambeau.Tensor:
    """Conjugated if it is complex, with a gradient if it has one; or as it is."""
    if tensor.dtype.is_complex and not tensor.is_sparse and call.one_in(6):
        tensor = tensor.conj()
    elif tensor.dtype.is_complex and not tensor.is_sparse and call.one_in(20):
        tensor = tensor.conj().imag  # a negative view
    if (tensor.dtype.is_floating_point or tensor.dtype.is_complex) and call.one_in(4):
        tensor = tensor.detach().requires_grad_()
        return tensor if call.one_in(2) else tensor.clone()
    return tensor
