"""Activations at NaN, infinities, zeros of both signs and the borders of their pieces, as in PyTorch."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest
from scipy.special import ndtr
from side_by_side import refuse_alike, same

NAN, INF = float("nan"), float("inf")
EDGES = np.array([NAN, INF, -INF, 0.0, -0.0, 1e30, -1e30, 3.0, -3.0, 6.0, 0.5, -0.5, 1e-40, 20.5, -20.5])
NAMES = (
    "relu relu6 leaky_relu elu selu celu silu mish hardtanh hardsigmoid hardswish softplus logsigmoid "
    "softsign tanhshrink softshrink hardshrink"
).split()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_values_at_edges(name, dtype):
    """Bound: 4 eps relative, and 4 eps of 1 where a result cancels."""
    eps = 4 * float(np.finfo(dtype).eps)
    # PyTorch gives NaN for hardswish(-inf); the limit is 0.
    edges = EDGES[EDGES != -INF if name == "hardswish" else slice(None)].astype(dtype)
    for x in (edges, edges[::2].copy(), np.float64(-3.0).astype(dtype), np.zeros((0, 3), dtype)):
        same(lambda m, t: getattr(m.nn.functional, name)(t), np.array(x), rtol=eps, atol=eps)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_at_edges(name):
    """Finite elements: the chosen slope where two pieces meet is PyTorch's."""
    finite = EDGES[np.isfinite(EDGES)]

    def program(m, t):
        t.requires_grad_()
        return m.autograd.grad(getattr(m.nn.functional, name)(t).sum(), t)[0]

    # PyTorch rounds hardsigmoid's slope 1 / 6 to float32.
    rtol = 2.0**-24 if name == "hardsigmoid" else 1e-13
    same(program, finite, rtol=rtol, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gelu_against_its_definition(dtype):
    """Bound: 4 eps relative, and 4 eps of 1 in the tail. PyTorch's float32 tail is less exact."""
    finite = EDGES[np.isfinite(EDGES)].astype(dtype)
    want = finite.astype(np.float64) * ndtr(finite.astype(np.float64))
    eps = 4 * float(np.finfo(dtype).eps)
    found = fb.nn.functional.gelu(fb.from_numpy(finite))
    np.testing.assert_allclose(found.numpy(), want, rtol=eps, atol=eps)


def test_strided_operands_and_in_place():
    x = np.linspace(-4, 4, 24).reshape(4, 6)
    for f in ("relu_", "celu_", "threshold_", "hardtanh_", "leaky_relu_", "elu_", "rrelu_"):
        extra = (0.5, 9.0) if f == "threshold_" else ()
        same(lambda m, t, f=f, e=extra: [getattr(m.nn.functional, f)(t.t()[::2], *e), t], x, rtol=1e-14)


def test_thresholds_at_the_threshold_and_beyond():
    x = np.array([0.5, np.nextafter(0.5, 1), NAN, INF, -INF])
    same(lambda m, t: m.nn.functional.threshold(t, 0.5, -7.0), x, rtol=0, atol=0)
    same(lambda m, t: m.nn.functional.softplus(t, beta=1e3, threshold=0.1), x, rtol=1e-14)
    same(lambda m, t: m.nn.functional.hardtanh(t, 0.25, 0.25), x, rtol=0, atol=0)
    same(lambda m, t: m.nn.functional.glu(t.repeat(2)), x, rtol=1e-14)


def test_integers():
    same(lambda m, t: m.relu(t), np.array([-3, 0, 5]))
    same(lambda m, t: m.nn.functional.relu6(t), np.array([-3, 0, 9]))
    refuse_alike(lambda m, t: m.nn.functional.gelu(t), np.array([1, 2]))
    refuse_alike(lambda m, t: m.nn.functional.glu(t), np.ones(3))
    refuse_alike(lambda m, t: m.nn.functional.prelu(t, t[:2]), np.ones((1, 3)))
