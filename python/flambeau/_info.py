"""Limits of the numeric dtypes."""

from __future__ import annotations

from flambeau import _C, _naming

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


class finfo:
    """Limits of a floating dtype: bits, eps, max, min, tiny, smallest_normal, resolution.

    Args:
        type: the dtype; the default one if left out. A complex dtype gives the limits of its parts.
    """

    def __init__(self, type: _C.dtype | None = None) -> None:
        wanted = _C.get_default_dtype() if type is None else type
        name = _naming.short(wanted.to_real())
        if name not in _FLOATING:
            raise TypeError(f"finfo(): expected a floating dtype, got '{wanted}'; iinfo is for integers")
        mantissa, high, low = _FLOATING[name]
        self.dtype = name
        self.bits = wanted.to_real().itemsize * 8
        self.eps = _EPS.get(name, 2.0**-mantissa)
        self.max = _LARGEST.get(name, (2.0 - 2.0**-mantissa) * 2.0**high)
        self.min = -self.max if wanted.is_signed else 2.0**low
        self.tiny = self.smallest_normal = 2.0**low
        self.resolution = 10.0 ** -int(mantissa * 0.30103)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype: bits, max, min.

    Args:
        type: the dtype.
    """

    def __init__(self, type: _C.dtype) -> None:
        if type is _C.bool:
            raise TypeError(f"{type} is not supported by {_naming.root}.iinfo")
        if type.is_floating_point or type.is_complex:
            raise TypeError(
                f"iinfo(): expected an integer dtype, got '{type}'; finfo is for floating numbers"
            )
        self.dtype = _naming.short(type)
        self.bits = type.itemsize * 8
        signed = int(type.is_signed)
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) * signed

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
