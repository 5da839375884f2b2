"""Factories: ends of ranges, counts by rounding, every dtype, huge and negative sizes, as in PyTorch."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest
from side_by_side import refuse_alike, same

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "args",
    [
        (0,),
        (5,),
        (5.5,),
        (2, 2),
        (1, 10, 3),
        (1.0, 2.0, 0.1),
        (0, -5, -2),
        (0.1, 0.7, 0.1),
        (-3, 3),
        (0, 1, 2),
    ],
)
def test_arange(args):
    same(lambda m: m.arange(*args), rtol=1e-7, atol=0)
    same(lambda m: m.arange(*args, dtype=m.float64), rtol=1e-15)


def test_arange_that_cannot_be():
    for args in ((0, 5, 0), (0, 5, -1), (0, NAN), (0, INF), (5, 0, 1)):
        refuse_alike(lambda m, a=args: m.arange(*a))


@pytest.mark.parametrize("name", ["linspace", "logspace"])
def test_spaces(name):
    """Bound: 4 eps, 16 for logspace; both ends are met."""
    rtol = 4 * 2.0**-52 if name == "linspace" else 64 * 2.0**-52
    for args in ((0, 1, 0), (0, 1, 1), (3, 1, 2), (-2, 2, 5), (0.1, 0.7, 11), (2, 2, 3)):
        same(lambda m, a=args: getattr(m, name)(*a, dtype=m.float64), rtol=rtol, atol=1e-15)
    same(lambda m: getattr(m, name)(0, 3, 4, dtype=m.int64))
    same(lambda m: getattr(m, name)(m.tensor(0.0), 2, 3), rtol=1e-6)
    refuse_alike(lambda m: getattr(m, name)(0, 1, -1))


def test_fills():
    for value in (NAN, INF, -0.0, 3, True, 1j, 2**62):
        same(lambda m, v=value: m.full((2, 0, 3), v))
        same(lambda m, v=value: [m.full((2, 3), v), m.full((), v)])
    same(lambda m: [m.ones(2, dtype=m.uint8), m.zeros(()), m.zeros(0, 5), m.full_like(m.ones(2, 3), 7)])
    refuse_alike(lambda m: m.full((2,), 300, dtype=m.uint8, layout="x"))


def test_identities_and_triangles():
    same(lambda m: [m.eye(0), m.eye(3), m.eye(2, 4), m.eye(4, 2, dtype=m.int32), m.eye(3, 0)])
    for offset in (-5, -1, 0, 2, 9):
        same(lambda m, k=offset: [m.tril_indices(3, 4, k), m.triu_indices(3, 4, k), m.tril_indices(0, 4, k)])
    for f in (lambda m: m.eye(-1), lambda m: m.eye(2, -2), lambda m: m.tril_indices(-1, 2)):
        refuse_alike(f)


def test_sizes_that_cannot_be():
    for f in (lambda m: m.zeros(-1), lambda m: m.empty(2, -3), lambda m: m.ones([-1, 0])):
        refuse_alike(f)
    refuse_alike(lambda m: m.empty_strided((2, 3), (1,)))
    refuse_alike(lambda m: m.zeros(2**62))
    refuse_alike(lambda m: m.zeros(2**40, 2**40))


def test_new_and_like_keep_strides_and_dtype():
    x = np.arange(6.0).reshape(2, 3)
    same(lambda m, a: [list(m.zeros_like(a.t()).stride()), list(m.empty_like(a[:, ::2]).stride())], x)
    same(lambda m, a: [a.new_zeros(2), a.new_full((1, 2), 3), a.int().new_ones(3), a.new_empty(0)], x)
    same(lambda m, a: [list(m.empty_permuted((2, 3, 4), (2, 0, 1)).stride())], x)


@pytest.mark.parametrize("sizes", [(0, 2**63 - 1), (2**63 - 1, 0)])
def test_an_empty_eye_may_have_a_side_of_any_length(sizes):
    assert fb.eye(*sizes).shape == sizes
