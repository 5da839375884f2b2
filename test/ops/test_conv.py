"""Convolutions: special values stay in their windows, geometry without elements, SciPy, errors."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest
from scipy.signal import correlate
from side_by_side import numbers, refuse_alike, same

pytestmark = pytest.mark.products


def test_one_channel_against_scipy():
    """Bound: k eps of the sum of magnitudes, here 1e-13."""
    x, w = numbers(9, 11, dtype=np.float64), numbers(3, 4, seed=1, dtype=np.float64)
    found = fb.conv2d(fb.from_numpy(x)[None, None], fb.from_numpy(w)[None, None])[0, 0]
    np.testing.assert_allclose(found.numpy(), correlate(x, w, "valid"), atol=1e-13)


def test_nan_and_infinity_reach_their_windows_alone():
    for bad in (np.nan, np.inf):
        x = np.ones((1, 2, 9), np.float32)
        x[0, 1, 4] = bad
        same(lambda m, a: m.conv1d(a, m.ones(3, 2, 3), padding=1), x)
        same(lambda m, a: m.conv_transpose1d(a, m.ones(2, 3, 2), stride=2), x)


@pytest.mark.parametrize(
    "options", [{"stride": 2}, {"padding": 2, "dilation": 2}, {"groups": 2}, {"padding": "same"}]
)
def test_geometry_and_strides(options):
    x, w = (
        numbers(6, 4, 2, 7, dtype=np.float64),
        numbers(4, 4 // options.get("groups", 1), 3, 3, dtype=np.float64),
    )

    def program(m, a, b):
        moved = a.permute(2, 1, 3, 0)[:, :, ::2]
        return m.nn.functional.conv2d(m.nn.functional.pad(moved, (1, 1, 1, 1)), b, **options)

    same(program, x, w, rtol=1e-12, atol=1e-12)


def test_no_samples_and_no_elements():
    x, w = np.ones((0, 2, 5)), np.ones((3, 2, 3))
    same(lambda m, a, b: m.conv1d(a, b), x, w)
    refuse_alike(lambda m, a, b: m.conv1d(a, b), np.ones((1, 2, 2)), w)


def test_wrong_arguments():
    x, w = np.ones((1, 2, 5)), np.ones((3, 2, 3))
    refuse_alike(lambda m, a, b: m.conv1d(a[:, :1], b), x, w)
    refuse_alike(lambda m, a, b: m.conv1d(a, b, stride=0), x, w)
    refuse_alike(lambda m, a, b: m.conv1d(a, b, padding=-1), x, w)
    refuse_alike(lambda m, a, b: m.conv1d(a, b, groups=2), x, w)
    refuse_alike(lambda m, a, b: m.conv1d(a, b.float()), x, w)
    refuse_alike(lambda m, a, b: m.conv1d(a, b, m.ones(2, dtype=m.float64)), x, w)
