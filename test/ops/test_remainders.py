"""remainder, fmod and floor_divide of floating point: exact results for quotients of every length."""

from __future__ import annotations

import math
from fractions import Fraction

import flambeau as fb
import numpy as np
import pytest

inf, nan = math.inf, math.nan
DTYPES = [np.float32, np.float64]


def operands(dtype, most_bits: int, n: int = 1003) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs whose quotients have up to `most_bits` binary digits."""
    rng = np.random.default_rng(most_bits)
    divisors = rng.uniform(0.5, 1, n) * rng.choice([-1, 1], n)
    dividends = np.ldexp(rng.uniform(-1, 1, n), rng.integers(-2, most_bits + 1, n))
    return dividends.astype(dtype), divisors.astype(dtype)


def exact_remainder(a: float, b: float) -> Fraction:
    """The remainder of Python's %, in rational numbers."""
    x, y = Fraction(a), Fraction(b)
    return x - y * math.floor(x / y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("most_bits", [3, 22, 30, 52, 60, 120])
def test_fmod_is_exact(dtype, most_bits):
    a, b = operands(dtype, most_bits)
    got = fb.fmod(fb.from_numpy(a), fb.from_numpy(b)).numpy()
    want = [math.fmod(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_array_equal(got, np.array(want, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("most_bits", [3, 30, 60, 120])
def test_remainder_is_the_rounded_exact_one(dtype, most_bits):
    a, b = operands(dtype, most_bits)
    got = fb.remainder(fb.from_numpy(a), fb.from_numpy(b)).numpy()
    assert ((got == 0) | (np.signbit(got) == np.signbit(b))).all()
    for g, x, y in zip(got.tolist(), a.tolist(), b.tolist(), strict=True):
        # One rounding where the divisor is added to a remainder of the other sign.
        error = abs(Fraction(g) - exact_remainder(x, y))
        assert error <= abs(Fraction(y)) * Fraction(float(np.finfo(dtype).eps)) / 2, (x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_floor_divide_is_exact_while_integers_are(dtype):
    a, b = operands(dtype, 21 if dtype == np.float32 else 50)
    got = fb.floor_divide(fb.from_numpy(a), fb.from_numpy(b)).tolist()
    want = [math.floor(Fraction(x) / Fraction(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert got == want


@pytest.mark.parametrize("dtype", DTYPES)
def test_floor_divide_of_long_quotients_is_near(dtype):
    a, b = operands(dtype, 100)
    got = fb.floor_divide(fb.from_numpy(a), fb.from_numpy(b)).tolist()
    eps = Fraction(float(np.finfo(dtype).eps))
    for g, x, y in zip(got, a.tolist(), b.tolist(), strict=True):
        want = math.floor(Fraction(x) / Fraction(y))
        assert abs(Fraction(g) - want) <= 2 * eps * abs(want), (x, y)


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16, fb.float16])
def test_special_values(dtype):
    a = fb.tensor([5.0, -5.0, 0.0, -0.0, inf, -inf, nan, 5.0, 5.0, -5.0, 5.0], dtype=dtype)
    b = fb.tensor([inf, inf, 2.0, 2.0, 2.0, inf, 2.0, nan, 0.0, -inf, -2.0], dtype=dtype)
    rest = fb.fmod(a, b).tolist()
    assert rest[:4] == [5, -5, 0, 0] and math.copysign(1, rest[3]) == -1
    assert all(math.isnan(v) for v in rest[4:9]) and rest[9:] == [-5, 1]
    modulo = fb.remainder(a, b).tolist()
    assert modulo[:4] == [5, inf, 0, 0] and all(math.isnan(v) for v in modulo[4:9])
    assert modulo[9:] == [-5, -1]
    whole = fb.floor_divide(a, b).tolist()
    assert whole[:4] == [0, -1, 0, 0] and math.copysign(1, whole[3]) == -1
    assert all(math.isnan(v) for v in whole[4:8]) and whole[8:] == [inf, 0, -3]


@pytest.mark.parametrize("name", ["remainder", "fmod", "floor_divide"])
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16])
def test_strides_scalars_and_sizes(name, dtype):
    function = getattr(fb, name)
    a = fb.from_numpy(np.random.default_rng(0).uniform(-50, 50, (37, 45))).to(dtype)
    b = fb.from_numpy(np.random.default_rng(1).uniform(0.5, 4, (37, 45))).to(dtype)
    want = function(a, b)
    assert fb.equal(function(a.t(), b.t()), want.t())
    assert fb.equal(function(a[:, ::2], b[:, ::2]), want[:, ::2])
    assert fb.equal(function(a[3:4], b), fb.stack([function(a[3], row) for row in b]))
    assert fb.equal(function(a, 1.5), function(a, fb.full_like(a, 1.5)))
    for n in range(35):
        assert fb.equal(function(a[0, :n], b[0, :n]), want[0, :n])
    inplace = a.clone()
    assert fb.equal(getattr(inplace, name + "_")(b), want) and fb.equal(inplace, want)


def test_the_least_divisor():
    """Quotients beyond the range of the format."""
    for dtype in DTYPES:
        info = np.finfo(dtype)
        a = np.array([info.max, -info.max, 1, info.tiny, 3], dtype)
        b = np.full(5, info.smallest_subnormal * 3, dtype)
        got = fb.fmod(fb.from_numpy(a), fb.from_numpy(b)).numpy()
        want = [math.fmod(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        np.testing.assert_array_equal(got, np.array(want, dtype))
