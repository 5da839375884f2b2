"""Complex functions at zeros of both signs, infinities and NaN: the values of C99's Annex G.

Python's cmath follows Annex G; where it raises for a pole or a NaN that Annex G calls unspecified, nothing
is compared. PyTorch itself differs from element to element of a vector in the signs of zeros.
"""

import cmath
import itertools
import math

import flambeau as fb
import pytest

PARTS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 700.0, math.inf, -math.inf, math.nan)
NAMES = ("exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan")
HYPERBOLIC = ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")


def same(a: float, b: float, signs: bool) -> bool:
    if a == 0 or b == 0 or not (math.isfinite(a) and math.isfinite(b)):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) == math.isnan(b)
        return abs(a) == abs(b) and (not signs or math.copysign(1, a) == math.copysign(1, b))
    return abs(a - b) <= 4e-15 * max(abs(a), abs(b))


def agree(found: complex, want: complex, z: complex) -> bool:
    """Annex G leaves signs open where a part is NaN, or the angle infinite."""
    signs = math.isfinite(z.imag) and not math.isnan(z.real)
    return same(found.real, want.real, signs) and same(found.imag, want.imag, signs)


# At 0 + NaN i C11 corrected what C99 and cmath say: the part that does not depend on NaN is known.
CORRECTED = {"tan": (math.nan, 0.0), "tanh": (0.0, math.nan), "acosh": (0.0, math.nan)}


def expected(function, z):
    try:
        return function(z)
    except (ValueError, OverflowError):
        return None


@pytest.mark.parametrize("name", [*NAMES, *HYPERBOLIC])
def test_special_values(name):
    points = [complex(x, y) for x, y in itertools.product(PARTS, PARTS)]
    whole = getattr(fb, name)(fb.tensor(points, dtype=fb.complex128)).tolist()
    wrong = []
    for z, found in zip(points, whole, strict=True):
        alone = getattr(fb, name)(fb.tensor(z, dtype=fb.complex128)).item()
        want = expected(getattr(cmath, name), z)
        assert repr(alone) == repr(found), f"{name}({z}) depends on its place"
        if name in CORRECTED and repr((abs(z.real), abs(z.imag))) == repr(CORRECTED[name]):
            assert cmath.isnan(found) and not (math.isnan(found.real) and math.isnan(found.imag))
        elif want is not None and not agree(found, want, z):
            wrong.append((z, found, want))
    assert not wrong


@pytest.mark.parametrize("dtype", [fb.complex64, fb.complex128])
def test_tanh_of_infinity_has_an_imaginary_zero_of_the_sign_of_sin_2y(dtype):
    for y in (0.0, -0.0, 1.0, 2.0, -1.0, -2.0):
        for x in (math.inf, -math.inf):
            found = fb.tanh(fb.tensor(complex(x, y), dtype=dtype)).item()
            assert found.real == math.copysign(1, x) and found.imag == 0
            assert math.copysign(1, found.imag) == math.copysign(1, math.sin(2 * y))
    found = fb.tanh(fb.tensor(complex(math.inf, math.inf), dtype=dtype)).item()
    assert found.real == 1 and found.imag == 0


PRODUCTS = {
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "square": lambda a, b: a.square(),
    "reciprocal": lambda a, b: a.reciprocal(),
    "addcmul": lambda a, b: fb.addcmul(a, a, b, value=0.3),
    "addcdiv": lambda a, b: fb.addcdiv(a, b, a, value=0.3),
    "lerp": lambda a, b: fb.lerp(a, b, b.conj().resolve_conj()),
    "sub": lambda a, b: fb.sub(a, b, alpha=0.3 - 0.7j),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", [fb.complex64, fb.complex128])
def test_vectors_of_products_equal_single_ones(name: str, dtype: fb.dtype):
    """Products are rounded before they are added, in vectors as in loops over single numbers."""
    fb.manual_seed(7)
    a, b = fb.randn(67, dtype=dtype), fb.randn(67, dtype=dtype)
    alone = [PRODUCTS[name](a[i : i + 1], b[i : i + 1]) for i in range(67)]
    assert fb.equal(PRODUCTS[name](a, b), fb.cat(alone))


@pytest.mark.parametrize("dtype", [fb.complex64, fb.complex128])
def test_the_product_with_the_conjugate_is_real(dtype: fb.dtype):
    z = fb.randn(1000, dtype=dtype)
    assert not (z * z.conj()).imag.any()
    assert not (z * z.conj().resolve_conj()).imag.any()
    assert not (z.conj().resolve_conj() * z).imag.any()
