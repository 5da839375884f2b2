"""Logical operators on every dtype: NaN and tiny numbers are true, zeros of both signs are false."""

from __future__ import annotations

import numpy as np
import pytest
from side_by_side import refuse_alike, same

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_truth_of_values(name):
    x = np.array([NAN, INF, 0.0, -0.0, 5e-324, -1.0])
    same(lambda m, a: getattr(m, name)(a.reshape(6, 1), a), x)
    same(
        lambda m, a: getattr(m, name)(a, a.flip(0).int() if a.dtype == m.int64 else a > 0),
        np.array([0, 256, -1]),
    )
    same(lambda m, a: getattr(m, name)(a, a.flip(0)), np.array([0j, 1j, complex(0, NAN), -0.0 + 0j]))
    same(lambda m, a: getattr(m, name)(a[:0], a[:0]), x)


def test_not():
    for x in (np.array([NAN, 0.0, -0.0, 5e-324]), np.array([0, 256]), np.array([0j, 1j]), np.array(True)):
        same(lambda m, a: m.logical_not(a), x)
    same(lambda m, a: m.logical_not(a, out=m.empty(2, dtype=m.int32)), np.array([0.0, 2.0]))


def test_in_place_and_errors():
    same(lambda m, a: [a.logical_and_(a.flip(0)), a], np.array([0.0, 2.0, 3.0]))
    refuse_alike(lambda m, a: m.logical_or(a, a[:2]), np.ones(3))
