"""Dtypes of the array API standard: kinds, conversion, promotion."""

from __future__ import annotations

import builtins
from typing import Any

import flambeau as _fb
from flambeau import (
    bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from flambeau._C import Tensor, dtype

_KINDS: dict[str, tuple[dtype, ...]] = {
    "bool": (bool,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "integral": (int8, int16, int32, int64, uint8, uint16, uint32, uint64),
    "real floating": (float32, float64),
    "complex floating": (complex64, complex128),
}
_KINDS["numeric"] = (*_KINDS["integral"], *_KINDS["real floating"], *_KINDS["complex floating"])


def astype(x: Tensor, dtype: dtype, /, *, copy: builtins.bool = True, device: Any = None) -> Tensor:
    """Convert an array to a dtype.

    Args:
        x: the array.
        dtype: the dtype of the result.
        copy: False returns `x` itself if neither dtype nor device change.
        device: the device of the result. Default: that of `x`.
    Returns: the converted array.

    Example:
        >>> flambeau.array_api.astype(flambeau.tensor([1.5, -2.5]), flambeau.int64)
        tensor([ 1, -2])
    """
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)


def isdtype(dtype: dtype, kind: Any) -> builtins.bool:
    """Test whether a dtype is of a kind.

    Args:
        dtype: the dtype.
        kind: a dtype, "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex
            floating", "numeric", or a tuple of these.
    Returns: a bool.
    Raises: ValueError for an unknown name.

    Example:
        >>> flambeau.array_api.isdtype(flambeau.int8, "integral")
        True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if not isinstance(kind, str):
        return dtype == kind
    if kind not in _KINDS:
        raise ValueError(f"isdtype: expected one of {', '.join(map(repr, _KINDS))}, got {kind!r}")
    return dtype in _KINDS[kind]


def result_type(*arrays_and_dtypes: Any) -> dtype:
    """Compute the dtype of arithmetic on arrays, dtypes and Python numbers.

    Args:
        *arrays_and_dtypes: the operands.
    Returns: the dtype.
    Raises: ValueError if there is neither an array nor a dtype.

    Example:
        >>> flambeau.array_api.result_type(flambeau.int8, flambeau.float32, 1.5)
        flambeau.float32
    """
    tensors = [_fb.empty(1, dtype=x) if isinstance(x, dtype) else x for x in arrays_and_dtypes]
    # One element and no dimension would make a tensor give way to others of its kind.
    shaped = [x.reshape(-1)[:1] if isinstance(x, Tensor) and x.ndim == 0 else x for x in tensors]
    found = [x for x in shaped if isinstance(x, Tensor)]
    if not found:
        raise ValueError("result_type: expected at least one array or dtype, got none")
    result = found[0].dtype
    for x in found[1:]:
        result = _fb.promote_types(result, x.dtype)
    for number in (x for x in shaped if not isinstance(x, Tensor)):
        result = _fb.result_type(_fb.empty(1, dtype=result), number)
    return result
