"""Functions of one number at the borders of their domains, at NaN and zeros of both signs, and in bytes."""

from __future__ import annotations

import numpy as np
import pytest
from side_by_side import refuse_alike, same

NAN, INF = float("nan"), float("inf")
EDGES = np.array(
    [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-300, 5e-324, 700.0, -750.0, 1e5]
)
NAMES = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh sigmoid ceil floor trunc round frac deg2rad rad2deg sinc angle isreal nan_to_num"
).split()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_edges(name, dtype):
    """Bound: 8 eps relative, and the smallest normal number."""
    limits = np.finfo(dtype)
    # Subnormal results and arguments may be flushed by neither side: they are compared as well.
    with np.errstate(over="ignore", under="ignore"):
        x = EDGES.astype(dtype)
    rtol, atol = 8 * float(limits.eps), float(limits.tiny) + (float(limits.eps) if name == "sinc" else 0)
    for a in (x, x[::3].copy(), np.zeros((2, 0), dtype), np.array(-0.5, dtype)):
        same(lambda m, t: getattr(m, name)(t), a, rtol=rtol, atol=atol)
    same(lambda m, t: getattr(m, name)(t.reshape(2, 8).t()[::3]), x[:16].copy(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", "sqrt ceil floor trunc round sin".split())
def test_signs_of_zeros(name):
    kept = [0.0, -0.0, 0.3] if name == "sqrt" else [0.0, -0.0, -0.3, 0.3]
    same(lambda m, t: getattr(m, name)(t).signbit(), np.array(kept))


def test_integers_and_bool():
    for dtype in (np.uint8, np.int64, np.bool_):
        x = np.array([0, 1, 100]).astype(dtype)
        same(lambda m, t: [t.exp(), t.sqrt(), t.sigmoid()], x, rtol=2.0**-21)
    same(lambda m, t: [t.ceil(), t.floor(), t.round(), t.trunc()], np.array([-3, 0, 2**62 + 1]))
    refuse_alike(lambda m, t: t.exp_(), np.array([1, 2]))
    refuse_alike(lambda m, t: m.sin(t, out=m.empty(2, dtype=m.int64)), np.array([1, 2]))


def test_rounding():
    x = np.array([2.5, -0.5, 1234.5678, -1e300, NAN, INF])
    for decimals in (-2, 0, 2):
        same(lambda m, t, d=decimals: t.round(decimals=d), x[:3].copy(), rtol=2.0**-51)
    same(lambda m, t: list(m.frexp(t[:4])), x)
    same(lambda m, t: m.nan_to_num(t, nan=7.0, posinf=1.0, neginf=-1.0), x)
