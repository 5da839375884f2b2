"""Reductions: cancellation, overflow, NaN, nothing to reduce, wrapping integers, strides, errors."""

from __future__ import annotations

import math

import flambeau as fb
import numpy as np
import pytest
from side_by_side import numbers, refuse_alike, same

NAN, INF = float("nan"), float("inf")
X = np.array([[1.0, NAN, 3.0, -2.0], [INF, 1.0, 2.0, 0.0], [INF, -INF, 0.0, 1.0], [0.0, -0.0, 1e-300, 1e300]])
NAMES = "sum mean prod amax amin any all var std logsumexp nansum nanmean".split()


@pytest.mark.parametrize("name", NAMES)
def test_special_values_along_each_dimension(name):
    """Bound: 8 eps."""
    for dim in (0, 1, -1):
        same(lambda m, a, d=dim: getattr(m, name)(a, d), X, rtol=2.0**-49)
        same(lambda m, a, d=dim: getattr(m, name)(a.t()[1:, ::2], d, keepdim=True), X, rtol=2.0**-49)


@pytest.mark.parametrize("name", "sum mean prod any all nansum var std".split())
def test_nothing_to_reduce(name):
    same(lambda m, a: [getattr(m, name)(a[:0]), getattr(m, name)(a[:0], 0), getattr(m, name)(a[:, :0], 0)], X)
    same(lambda m, a: getattr(m, name)(a[0, 0].reshape(())), np.array([[2.5]]))


@pytest.mark.parametrize("n", [1000, 100_001])
def test_sums_against_exact_ones(n):
    """Bound: (16 + log2 n) eps of the sum of magnitudes, however much of it cancels."""
    x = numbers(n, dtype=np.float64)
    x[::2] *= 1e10
    for dtype in (np.float32, np.float64):
        y = x.astype(dtype)
        exact = math.fsum(map(float, y))
        bound = (16 + math.log2(n)) * float(np.finfo(dtype).eps) * float(np.abs(y).sum(dtype=np.float64))
        assert abs(fb.from_numpy(y).sum().item() - exact) <= bound


def test_integers_wrap_and_widen():
    for dtype in (np.uint8, np.int8, np.int32, np.bool_):
        same(
            lambda m, a: [a.sum(), a.prod(), a.any(), a.all(0), a.amax()],
            np.array([200, 100, 3]).astype(dtype),
        )
    same(lambda m, a: [a.sum(), a.prod()], np.array([2**62, 2**62, 2**62, 3]))
    same(lambda m, a: a.sum(dtype=m.uint8), np.array([200, 100]))


def test_variance_of_large_numbers():
    """The mean is taken off before squaring: 1e-9 relative though the squares differ by 1e16."""
    x = 1e8 + np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(fb.from_numpy(x).var().item(), np.var(x, ddof=1), rtol=1e-9)
    same(lambda m, a: [a[:1].var(), a[:1].var(correction=0), m.std(a, 0, correction=9)], x)


@pytest.mark.parametrize("p", [0, 1, 2, 3, -1, INF, -INF])
def test_norms(p):
    same(lambda m, a: m.linalg.vector_norm(a, p, dim=1), X[:3].copy(), rtol=2.0**-49)
    same(lambda m, a: m.norm(a, p, dim=0), np.arange(6.0).reshape(2, 3), rtol=2.0**-49)


def test_wrong_arguments():
    refuse_alike(lambda m, a: a.sum(2), X)
    refuse_alike(lambda m, a: a.sum((0, 0)), X)
    refuse_alike(lambda m, a: a[:0].amax(), X)
    refuse_alike(lambda m, a: a.mean(), np.array([1, 2]))
    refuse_alike(lambda m, a: a.amax(), np.ones(2, np.complex64))


def test_norms_of_slices():
    x = numbers(2, 3, 4, dtype=np.float64)
    for dim in (-3, -2, -1, 0, 1, 2):
        for order in (0, 1, 2, 3, -1):
            same(lambda m, a, o=order, d=dim: m.norm_except_dim(a, o, d), x, rtol=1e-14)
            same(lambda m, a, o=order, d=dim: m.norm_except_dim(a.permute(2, 0, 1), o, d), x, rtol=1e-14)
    same(lambda m, a: [m.norm_except_dim(a), m.norm_except_dim(v=a, pow=1, dim=-1)], x, rtol=1e-14)
    same(lambda m, a: [m.norm_except_dim(a, 2, 0), m.norm_except_dim(a, 2, -1)], X[0], rtol=1e-14)
    same(lambda m, a: m.norm_except_dim(a, 2, 1), x + 1j * x[::-1], rtol=1e-14)
    same(lambda m, a: m.norm_except_dim(a, 2, 2), x[:, :0].copy())
    same(lambda m: m.norm_except_dim(m.tensor(-3.0), 2, -1))


def test_norms_of_slices_that_do_not_exist():
    for dim in (-4, 3, 2**40):
        refuse_alike(lambda m, a, d=dim: m.norm_except_dim(a, 2, d), numbers(2, 3, 4))
    for dim in (-2, 0, 1):
        refuse_alike(lambda m, d=dim: m.norm_except_dim(m.tensor(1.0), 2, d))
    refuse_alike(lambda m, a: m.norm_except_dim(a, 2.5, 0), numbers(2, 3))
    for dim in (-1, 0):
        refuse_alike(lambda m, d=dim: m.norm_except_dim(m.ones(2, 3, dtype=m.int64), 2, d))


def test_gradient_of_norms_of_slices():
    def program(m, a):
        a.requires_grad_()
        made = [m.norm_except_dim(a, order, dim) for order in (1, 2, 3) for dim in (-1, 0, 1)]
        return list(m.autograd.grad(sum((n * n).sum() for n in made), [a]))

    same(program, numbers(3, 4, dtype=np.float64), rtol=1e-13)
