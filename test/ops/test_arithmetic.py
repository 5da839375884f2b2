"""Arithmetic of every pair of special values, at the ends of integers, and in overlapping memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from side_by_side import refuse_alike, same

NAN, INF = float("nan"), float("inf")
VALUES = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e300, 5e-324, 3.0)
LEFT, RIGHT = (np.array(side) for side in zip(*itertools.product(VALUES, VALUES), strict=True))
NAMES = (
    "add sub mul div floor_divide remainder fmod pow maximum minimum fmax fmin hypot atan2 copysign "
    "nextafter rsub float_power heaviside"
).split()


@pytest.mark.parametrize("name", NAMES)
def test_every_pair_of_special_values(name):
    """Bound: 2 eps. The signs of zeros count as well, except of NaN."""

    def program(m, a, b):
        out = getattr(m, name)(a, b)
        either = name in ("fmax", "fmin")  # of zeros of both signs either may be taken
        return [out, out.signbit() & ~out.isnan() & ((out != 0) | (not either))]

    # A quotient that overflows: PyTorch's remainders of it are none.
    kept = slice(None) if name not in ("remainder", "fmod") else np.abs(RIGHT) != 5e-324
    same(program, LEFT[kept], RIGHT[kept], rtol=2 * 2.0**-52, atol=0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int32, np.int64])
def test_integers_wrap_at_their_ends(dtype):
    ends = np.iinfo(dtype)
    x = np.array([ends.min, ends.max, 1, 2, ends.max - 1], dtype)
    for name in ("add", "sub", "mul", "maximum", "minimum"):
        same(lambda m, a, b, n=name: getattr(m, n)(a, b), x, x[::-1].copy())
    with np.errstate(over="ignore"):
        same(lambda m, a: [a + a, a * a, -a], x)
    same(lambda m, a: [m.div(a, 3, rounding_mode=r) for r in ("floor", "trunc")], x)
    same(lambda m, a: [a % 3, m.fmod(a, 3), a // 3], x)


def test_integers_are_not_divided_by_zero():
    for f in (lambda m, x: x // 0, lambda m, x: x % 0, lambda m, x: m.fmod(x, 0)):
        refuse_alike(f, np.array([1, 2]))


def test_powers():
    same(lambda m, a, b: a**b, np.array([0.0, -0.0, -8.0, INF, NAN, 1.0]), np.array([0, 3, -1, -2, 0, 9.0]))
    same(lambda m, a: [2**a, a**0.5, a**-1, a**2, a**0], LEFT[::5].copy(), rtol=4 * 2.0**-52)


def test_limits_that_are_nan_or_crossed():
    x = np.array([NAN, INF, -INF, 0.0, 5.0])
    same(lambda m, a: [a.clamp(3, 1), a.clamp(max=NAN), a.clamp(NAN, 2.0), a.clamp(-INF, INF)], x)
    same(lambda m, a: a.clamp(a.flip(0), a), x)
    refuse_alike(lambda m, a: a.clamp(), x)


def test_operands_that_overlap_the_result():
    """PyTorch refuses a result whose elements share memory, and one that overlaps an operand in part."""
    x = np.arange(6.0)
    refuse_alike(lambda m, a: a[:1].expand(4).add_(1), x)
    refuse_alike(lambda m, a: m.add(a[:-1], 1, out=a[1:]), x)
    same(lambda m, a: [a.mul_(a), a.add_(a.clone().flip(0))], x)


def test_broadcasting_and_mixed_types():
    same(lambda m, a: a.reshape(2, 1, 3) + a.reshape(6, 1)[::2], np.arange(6.0))
    same(lambda m, a: m.ones(0, 3) * a[:1], np.arange(6.0))
    same(lambda m, a: [a + True, a * 2.5, a / 2, m.true_divide(a, a + 1)], np.arange(3))
    refuse_alike(lambda m, a: a + a[:2], np.arange(3.0))
    refuse_alike(lambda m, a: a.bool() - a.bool(), np.arange(3.0))
    refuse_alike(lambda m, a: a.add_(0.5), np.arange(3))
    refuse_alike(lambda m, a: m.add(a, a, alpha=0.5), np.arange(3))
