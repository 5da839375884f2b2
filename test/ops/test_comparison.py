"""Comparisons of special values, of integers beyond 2^53, across dtypes, and `where`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from side_by_side import refuse_alike, same

NAN, INF = float("nan"), float("inf")
VALUES = (NAN, INF, -INF, 0.0, -0.0, 1.0, 5e-324)
LEFT, RIGHT = (np.array(side) for side in zip(*itertools.product(VALUES, VALUES), strict=True))


@pytest.mark.parametrize("name", "eq ne lt le gt ge".split())
def test_every_pair(name):
    same(lambda m, a, b: getattr(m, name)(a, b), LEFT, RIGHT)
    near = np.array([2**53, 2**53 + 1, -(2**63), 2**63 - 1])
    same(lambda m, a: [getattr(a, name)(a.flip(0)), getattr(a, name)(2**53)], near)
    same(lambda m, a: getattr(m, name)(a, a.to(m.int32)), np.array([1.5, 2.0]))
    same(lambda m, a: getattr(m, name)(a.reshape(1, 7), a.reshape(7, 1)[::2]), np.array(VALUES))


def test_integers_against_fractions():
    """A number with a fraction is not cut to the tensor's dtype."""
    same(lambda m, a: [a < 1.5, a == 1.5, a >= 0.5, a > 300, a == -1], np.array([0, 1, 2], np.uint8))


@pytest.mark.parametrize("name", "isnan isinf isfinite isposinf isneginf signbit".split())
def test_kinds_of_numbers(name):
    same(lambda m, a: getattr(m, name)(a), np.array([*VALUES, -NAN]))
    same(lambda m, a: getattr(m, name)(a), np.array([1, -1, 0]))
    same(lambda m, a: getattr(m, name)(a.half()), np.array([70000.0, 65504.0, NAN, -0.0]))


def test_where_takes_nothing_from_the_other_side():
    x = np.array([NAN, 1.0, INF])

    def program(m, a):
        a.requires_grad_()
        out = m.where(a.isfinite(), a * a, m.zeros_like(a))
        return [out, m.autograd.grad(out.sum(), a)[0]]

    same(program, x, rtol=0)
    same(lambda m, a: m.where(a > 0, 1, 2.5), x)
    same(lambda m, a: m.where(a.reshape(3, 1) > 0, a, a[:1]), x)
    refuse_alike(lambda m, a: m.where(a, a, a), x)
    refuse_alike(lambda m, a: m.where(a > 0, a, a[:2]), x)


def test_complex_numbers_have_no_order():
    x = np.array([1 + 1j, NAN + 0j])
    same(lambda m, a: [a == a, a != a, a.isnan(), a.isfinite()], x)
    refuse_alike(lambda m, a: a < a, x)
