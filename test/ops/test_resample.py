"""Resampling: special values stay within their taps, one element, strides, scales, errors."""

from __future__ import annotations

import numpy as np
import pytest
from side_by_side import numbers, refuse_alike, same

CASES = [(mode, corners) for mode in ("bilinear", "bicubic") for corners in (False, True)] + [
    ("nearest", None),
    ("nearest-exact", None),
    ("area", None),
]


@pytest.mark.parametrize(("mode", "corners"), CASES)
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (11, 2), (4, 6)])
def test_sizes(mode, corners, size):
    """Bound: 8 eps of the largest magnitude, twice for two dimensions."""
    x = numbers(2, 3, 4, 6, dtype=np.float64)
    same(
        lambda m, a: m.nn.functional.interpolate(a.flip(3)[:, ::2], size, mode=mode, align_corners=corners),
        x,
        atol=16 * 2.0**-52 * float(np.abs(x).max()) * 2,
    )


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_special_values_and_one_element(mode):
    x = np.array([[[1.0, np.nan, 2.0, np.inf, 3.0, 4.0]]])
    same(lambda m, a: m.nn.functional.interpolate(a, 11, mode=mode), x, rtol=1e-14)
    same(lambda m, a: m.nn.functional.interpolate(a[..., :1], 4, mode=mode), x)
    same(lambda m, a: m.nn.functional.interpolate(a[:0], 4, mode=mode), x)
    same(lambda m, a: m.nn.functional.interpolate(a, scale_factor=0.5, mode=mode), x, rtol=1e-14)


def test_wrong_arguments():
    x = np.ones((1, 1, 4))
    refuse_alike(lambda m, a: m.nn.functional.interpolate(a, 0), x)
    refuse_alike(lambda m, a: m.nn.functional.interpolate(a, (2, 2)), x)
    refuse_alike(lambda m, a: m.nn.functional.interpolate(a, 2, scale_factor=2), x)
    refuse_alike(lambda m, a: m.nn.functional.interpolate(a), x)
    refuse_alike(lambda m, a: m.nn.functional.interpolate(a, 3, mode="cubic"), x)
