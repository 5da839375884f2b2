"""linear and bilinear: special values, empty sizes, strides, broadcasting of the bias, errors."""

from __future__ import annotations

import numpy as np
import pytest
from side_by_side import numbers, refuse_alike, same

pytestmark = pytest.mark.products
X, W, B = (numbers(*s, dtype=np.float64, seed=i) for i, s in enumerate([(4, 2, 3), (5, 3), (5,)]))


@pytest.mark.parametrize("lead", [(), (4,), (4, 2)])
def test_any_number_of_dimensions(lead):
    """Bound: k eps of the sum of magnitudes, here 1e-14."""
    x = X.reshape(-1, 3)[: int(np.prod(lead))].reshape(*lead, 3).copy()

    def program(m, x, w, b):
        leaves = [t.requires_grad_() for t in (x, w, b)]
        out = m.nn.functional.linear(x, w, b)
        return [out, *m.autograd.grad((out * out).sum(), leaves)]

    same(program, x, W, B, rtol=1e-13, atol=1e-13)


def test_special_values_and_strides():
    x = X.copy()
    x[1, 0, 2], x[2, 1, 0] = np.nan, np.inf
    same(lambda m, x, w: m.nn.functional.linear(x.transpose(0, 1), w[::2]), x, np.abs(W), rtol=1e-13)
    same(lambda m, x, w: m.nn.functional.linear(x[:1].expand(6, 2, 3), w), X, W, rtol=1e-13, atol=1e-15)


def test_empty_sizes():
    same(lambda m, x, w, b: m.nn.functional.linear(x[:0], w, b), X, W, B)
    same(lambda m, x, w: m.nn.functional.linear(x, w[:0]), X, W)
    same(lambda m, x, w, b: m.nn.functional.linear(x[..., :0], w[:, :0], b), X, W, B)
    same(lambda m, x, w, b: m.nn.functional.linear(x[:0, :, :0], w[:, :0], b), X, W, B)


def test_bilinear():
    y, w = numbers(4, 2, 2, dtype=np.float64), numbers(5, 3, 2, dtype=np.float64)
    same(lambda m, x, y, w, b: m.nn.functional.bilinear(x, y, w, b), X, y, w, B, rtol=1e-13, atol=1e-14)
    refuse_alike(lambda m, x, y, w: m.nn.functional.bilinear(x, y[:1], w), X, y, w)


def test_wrong_arguments():
    refuse_alike(lambda m, x, w: m.nn.functional.linear(x[..., :2], w), X, W)
    refuse_alike(lambda m, x, w: m.nn.functional.linear(x, w.float()), X, W)
    refuse_alike(lambda m, x, w, b: m.nn.functional.linear(x, w, b[:2]), X, W, B)


@pytest.mark.parametrize("bias", [(), (1,), (5,)])
@pytest.mark.parametrize("lead", [(), (4,), (4, 2), (0,)])
def test_a_weight_of_one_dimension(lead, bias):
    """A bias has no dimensions then, and the input any number but two."""
    x, w, b = numbers(*lead, 3, dtype=np.float64), W[0], np.ones(bias)
    refused = bias != () or len(lead) == 1

    def program(m, x, w, b):
        return m.nn.functional.linear(x, w, b)

    if refused:
        refuse_alike(program, x, w, b)
    else:
        same(program, x, w, b, rtol=1e-13, atol=1e-13)
