"""The Python array API standard, version 2024.12, on flambeau's tensors.

Libraries written for the standard take this module from `x.__array_namespace__()`. Names that PyTorch
users know with other arguments (`sum(dim=)`, `repeat`, `unique`) keep those at the top level of flambeau
and have the standard's here. uint16, uint32 and uint64 do not promote with other integers, as in PyTorch,
and `Tensor.size` stays a method.

Source: https://data-apis.org/array-api/2024.12/
"""

from __future__ import annotations

from math import e, inf, nan, pi
from typing import Any

import flambeau as _fb
from flambeau import (
    abs,
    acos,
    acosh,
    add,
    arange,
    asarray,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    bool,
    broadcast_to,
    can_cast,
    complex64,
    complex128,
    copysign,
    cos,
    cosh,
    divide,
    empty,
    empty_like,
    exp,
    expm1,
    finfo,
    float32,
    float64,
    floor_divide,
    from_dlpack,
    full,
    full_like,
    greater,
    greater_equal,
    hypot,
    iinfo,
    imag,
    int8,
    int16,
    int32,
    int64,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    matmul,
    maximum,
    minimum,
    moveaxis,
    multiply,
    negative,
    nextafter,
    not_equal,
    ones,
    ones_like,
    pow,
    real,
    reciprocal,
    remainder,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    tile,
    uint8,
    uint16,
    uint32,
    uint64,
    where,
    zeros,
    zeros_like,
)
from flambeau import bitwise_not as bitwise_invert
from flambeau import conj_physical as conj
from flambeau import eq as equal
from flambeau import positive as positive
from flambeau import sgn as sign
from flambeau._C import device, dtype
from flambeau.array_api._creation import (
    ceil,
    clip,
    eye,
    floor,
    linspace,
    meshgrid,
    round,
    tril,
    triu,
    trunc,
)
from flambeau.array_api._dtypes import (
    astype,
    isdtype,
    result_type,
)
from flambeau.array_api._manipulation import (
    argsort,
    broadcast_arrays,
    concat,
    expand_dims,
    flip,
    matrix_transpose,
    nonzero,
    permute_dims,
    repeat,
    reshape,
    roll,
    searchsorted,
    sort,
    squeeze,
    stack,
    take,
    take_along_axis,
    tensordot,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    unstack,
    vecdot,
)
from flambeau.array_api._reductions import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)

newaxis = None
__array_api_version__ = "2024.12"


def __getattr__(name: str) -> Any:
    if name in ("linalg", "fft"):
        return getattr(_fb, name)
    raise AttributeError(f"module 'flambeau.array_api' has no attribute '{name}'")


class _Info:
    """What the standard's inspection functions answer."""

    def capabilities(self) -> dict[str, Any]:
        """Masks and results whose shape is data work; dimensions are not limited."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> device:
        """Return the device of new arrays."""
        return device("cpu")

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtype]:
        """Return the dtypes that Python's numbers take."""
        own = _fb.get_default_dtype()
        wide = complex128 if own == float64 else complex64
        return {"real floating": own, "complex floating": wide, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dtype]:
        """Return the dtypes of a kind by name; all of them for None."""
        integers = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
        names = ("bool", *integers, "float32", "float64", "complex64", "complex128")
        table = {name: getattr(_fb, name) for name in names}
        return {n: d for n, d in table.items() if kind is None or isdtype(d, kind)}

    def devices(self) -> list[device]:
        """Return the devices of this machine."""
        return [device("cpu")]


def __array_namespace_info__() -> _Info:
    """Give the inspection functions of the standard.

    Returns: an object with `capabilities`, `default_device`, `default_dtypes`, `dtypes` and `devices`.

    Example:
        >>> flambeau.array_api.__array_namespace_info__().default_dtypes()["integral"]
        flambeau.int64
    """
    return _Info()
