"""Places of extrema: NaN, infinities, ties, strides, empty dimensions, bytes and bool, errors."""

from __future__ import annotations

import numpy as np
import pytest
from side_by_side import refuse_alike, same

NAN, INF = float("nan"), float("inf")
X = np.array([[1.0, NAN, 3.0, NAN], [INF, INF, -INF, 0.0], [-0.0, 0.0, -0.0, 0.0], [-INF] * 4])


@pytest.mark.parametrize("name", ["max", "min"])
def test_values_and_places(name):
    for dim in (0, 1, -1):
        same(lambda m, a, d=dim: list(getattr(m, name)(a, d)), X)
        same(lambda m, a, d=dim: list(getattr(a.t()[::2, 1:], name)(d, keepdim=True)), X)
    same(lambda m, a: list(getattr(m, name)(a.half().float(), 1)), X)
    for dtype in (np.uint8, np.int8, np.int64, np.bool_):
        same(lambda m, a: list(getattr(m, name)(a, 0)), np.array([3, 0, 255, 0]).astype(dtype))
    same(lambda m, a: list(getattr(m, name)(a[:, :0], 0)), X)
    same(lambda m, a: list(getattr(m, name)(a[0, 2], 0)), X)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places(name):
    same(lambda m, a: [getattr(m, name)(a), getattr(m, name)(a[2:]), getattr(m, name)(a.t(), 0, True)], X)
    big = np.zeros(100_003, np.float32)
    big[[77_777, 99_999]] = 1 if name == "argmax" else -1
    same(lambda m, a: getattr(m, name)(a), big)


def test_extents():
    for dim in (0, 1):
        same(lambda m, a, d=dim: list(m.aminmax(a, dim=d)), X)
    same(lambda m, a: list(m.aminmax(a[1:])), X)


def test_wrong_arguments():
    refuse_alike(lambda m, a: a.max(2), X)
    refuse_alike(lambda m, a: a[:0].max(0), X)
    refuse_alike(lambda m, a: a[:0].argmin(), X)
    refuse_alike(lambda m, a: m.aminmax(a[:0]), X)
    refuse_alike(lambda m, a: a.argmax(0), np.ones(2, np.complex64))
