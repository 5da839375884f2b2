"""Limits of the numeric dtypes."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau import _C
from flambeau._types import naming

__all__ = ["finfo", "iinfo"]

# dtype -> mantissa bits (without the hidden one), largest and smallest exponents of normal numbers.
_FLOATING = {
    "float16": (10, 15, -14),
    "bfloat16": (7, 127, -126),
    "float32": (23, 127, -126),
    "float64": (52, 1023, -1022),
    "float8_e4m3fn": (3, 8, -6),
    "float8_e5m2": (2, 15, -14),
    "float8_e4m3fnuz": (3, 7, -7),
    "float8_e5m2fnuz": (2, 15, -15),
    "float8_e8m0fnu": (0, 127, -127),
}
# The largest mantissa of e4m3fn is NaN at its highest exponent: 1.75 * 2**8 is the largest number.
_LARGEST = {"float8_e4m3fn": 448.0, "float8_e8m0fnu": 2.0**127}
# PyTorch's float8_e5m2fnuz has three bits of precision, and half the eps that its mantissa gives.
_EPS = {"float8_e5m2fnuz": 0.125}


# Quantized dtypes have the limits of the integers that they store.
_STORED: dict[str, _C.dtype] = {
    "qint8": _C.int8,
    "quint8": _C.uint8,
    "qint32": _C.int32,
    "quint4x2": _C.uint8,
    "quint2x4": _C.uint8,
}


_OF_PYTHON: dict[Any, _C.dtype] = {
    float: _C.float64,
    complex: _C.complex128,
    int: _C.int64,
    bool: _C.bool,
}


def _dtype_of(function: str, given: Any) -> _C.dtype:
    """Return a dtype, or the dtype that corresponds to a type of Python's numbers."""
    for kind, dtype in _OF_PYTHON.items():
        if given is kind:
            return dtype
    if not isinstance(given, _C.dtype):
        raise TypeError(f"{function}(): expected a dtype, got {given!r}")
    return given


class _Limits:
    """Attributes that are set once, and compare as a whole."""

    __slots__: tuple[str, ...] = ()

    def _set(self, **limits: Any) -> None:
        for name, value in limits.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"attribute '{name}' of {naming.root}.{type(self).__name__} is not writable")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def _values(self) -> list[Any]:
        return [getattr(self, name) for name in self.__slots__]

    def __reduce__(self) -> Any:
        return type(self), (getattr(_C, self._values()[0]),)


class finfo(_Limits):
    """Limits of a floating dtype: bits, eps, max, min, tiny, smallest_normal, resolution.

    Args:
        type: the dtype; the default one if left out. A complex dtype gives the limits of its parts.
    Raises: TypeError for a dtype of integers or bools, and for what is no dtype.

    Example:
        >>> flambeau.finfo(flambeau.float16).max
        65504.0
    """

    dtype: str
    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float
    __slots__ = ("dtype", "bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution")  # noqa: RUF023

    def __init__(self, type: _C.dtype | None = None) -> None:
        wanted = _C.get_default_dtype() if type is None else _dtype_of("finfo", type)
        name = naming.short(wanted.to_real())
        if name not in _FLOATING:
            raise TypeError(f"finfo(): expected a floating dtype, got '{wanted}'; iinfo is for integers")
        mantissa, high, low = _FLOATING[name]
        largest = _LARGEST.get(name, (2.0 - 2.0**-mantissa) * 2.0**high)
        self._set(
            dtype=name,
            bits=wanted.to_real().itemsize * 8,
            eps=_EPS.get(name, 2.0**-mantissa),
            max=largest,
            min=-largest if wanted.is_signed else 2.0**low,
            tiny=2.0**low,
            smallest_normal=2.0**low,
            resolution=10.0 ** -int(mantissa * 0.30103),
        )

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo(_Limits):
    """Limits of an integer dtype: bits, max, min.

    Args:
        type: the dtype.
    Raises: TypeError for a floating or complex dtype or bool, and for what is no dtype.

    Example:
        >>> flambeau.iinfo(flambeau.int8).min
        -128
    """

    dtype: str
    bits: int
    max: int
    min: int
    __slots__ = ("dtype", "bits", "max", "min")  # noqa: RUF023

    def __init__(self, type: _C.dtype) -> None:
        type = _dtype_of("iinfo", type)
        if type is _C.bool:
            raise TypeError(
                f"{naming.root}.iinfo: expected an integer dtype, got {type}, which is not "
                f"supported by {naming.root}.iinfo"
            )
        name = naming.short(type)
        stored: _C.dtype = _STORED.get(name, type)
        if type.is_floating_point or type.is_complex:
            raise TypeError(
                f"iinfo(): expected an integer dtype, got '{type}'; finfo is for floating numbers"
            )
        if name.startswith("bits") or stored.abbr == name:  # int4 and the like
            raise TypeError(f"iinfo(): expected an integer dtype of whole bytes, got '{type}'")
        bits, signed = stored.itemsize * 8, int(stored.is_signed)
        self._set(dtype=name, bits=bits, max=2 ** (bits - signed) - 1, min=-(2 ** (bits - 1)) * signed)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
