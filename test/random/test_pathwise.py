"""How gamma and Dirichlet samples move with their concentrations, against 30-digit quadrature."""

from __future__ import annotations

import flambeau as fb
import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp

BOUND = 1e-10  # what the kernel's head says
CONCENTRATIONS = [1e-8, 1e-4, 0.3, 1.0, 3.0, 12.5, 50.0]


def gamma_reference(a: float, x: float) -> mp.mpf:
    """From the power series of the incomplete gamma function and its derivative in a."""
    with mp.workdps(60 + 2 * int(x)):
        a, x = mp.mpf(a), mp.mpf(x)
        total, slope, term, n = mp.mpf(0), mp.mpf(0), mp.mpf(1), 0
        while abs(term) > mp.mpf(10) ** -50 or n <= x:
            total, slope = total + term * a / (a + n), slope + term * n / (a + n) ** 2
            n += 1
            term *= -x / n
        return -(x / a) * mp.exp(x) * (total * (mp.log(x) - mp.digamma(a + 1)) + slope)


def double(*values: float) -> list[fb.Tensor]:
    return [fb.tensor([float(v)], dtype=fb.float64) for v in values]


@pytest.mark.parametrize("a", CONCENTRATIONS)
@pytest.mark.parametrize("share", [1e-6, 0.3, 0.5, 0.99])
def test_gamma(a: float, share: float):
    x = max(float(sp.gammaincinv(a, share)), 1e-300)
    found = fb._standard_gamma_grad(*double(a, x)).item()
    assert abs(found / gamma_reference(a, x) - 1) < BOUND


@pytest.mark.parametrize("a", [1e3, 1e5, 1e8])
@pytest.mark.parametrize("z", [-3.0, 0.0, 0.5, 4.0])
def test_gamma_of_large_concentration(a: float, z: float):
    """A cube-root normal approximation (Wilson & Hilferty 1931), whose derivative is exact to O(1/a)."""
    x = a * (1 - 1 / (9 * a) + z / (3 * a**0.5)) ** 3
    near = 1 + z / (2 * a**0.5)
    assert abs(fb._standard_gamma_grad(*double(a, x)).item() - near) < 10 / a


@pytest.mark.parametrize("b", [1e-3, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("a", [1e-3, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("x", [1e-3, 0.3, 0.7, 0.999])
def test_dirichlet(a: float, b: float, x: float):
    with mp.workdps(250):  # the tail beyond x may be 1e-150
        p, q, t = mp.mpf(a), mp.mpf(float(np.float64(a + b) - a)), mp.mpf(x)
        step = p * mp.mpf(10) ** -30
        slope = mp.diff(lambda s: mp.betainc(s, q, 0, t, regularized=True), p, h=step)
        density = t ** (p - 1) * (1 - t) ** (q - 1) / mp.beta(p, q)
        expected = -slope / density / (1 - t)
    found = fb._dirichlet_grad(*double(x, a, a + b)).item()
    assert abs(found / expected - 1) < BOUND


def test_corners():
    nan, inf = float("nan"), float("inf")
    a = fb.tensor([nan, 1.0, 0.0, -1.0, 2.0, inf, 2.0])
    x = fb.tensor([1.0, nan, 1.0, 1.0, 0.0, inf, -1.0])
    found = fb._standard_gamma_grad(a, x).tolist()
    assert np.isnan(found)[[0, 1, 2, 3, 6]].all() and found[4:6] == [0, 1]
    # One class alone has a share of 1, which does not move.
    assert fb._dirichlet_grad(fb.tensor([1.0]), fb.tensor([2.0]), fb.tensor([2.0])).tolist() == [0]
    assert (
        fb._dirichlet_grad(fb.tensor([0.5, nan]), fb.tensor([nan, 1.0]), fb.tensor([2.0, 2.0])).isnan().all()
    )
    assert fb._standard_gamma_grad(fb.zeros(0), fb.zeros(0)).shape == (0,)
    assert fb._standard_gamma_grad(fb.tensor(2.0), fb.tensor(1.0)).shape == ()


def test_samples_of_corners():
    tiny = fb.finfo(fb.float32).tiny
    found = fb._standard_gamma(fb.tensor([float("nan"), 0.0, -1.0, 1e-8, float("inf")])).tolist()
    assert np.isnan(found[0]) and found[1:4] == [tiny] * 3 and found[4] == float("inf")
    shares = fb._sample_dirichlet(fb.tensor([[1e-8, 1e-8], [1e8, 1e8], [1e-8, 1e8]]))
    assert ((shares > 0) & (shares < 1)).all()
    assert fb._sample_dirichlet(fb.zeros(2, 0)).shape == (2, 0)


def test_backward_reaches_concentrations():
    fb.manual_seed(0)
    a = (fb.rand(4, 3, dtype=fb.float64) * 5 + 0.1).requires_grad_()
    x = fb._standard_gamma(a)
    x.sum().backward()
    assert fb.equal(a.grad, fb._standard_gamma_grad(a.detach(), x.detach()))
    a.grad = None
    x = fb._sample_dirichlet(a)
    # Shares add up to 1, whatever the concentrations.
    x.sum().backward()
    assert a.grad.abs().max() < 1e-12


def test_gradient_of_the_mean_of_many_samples():
    """The mean of a beta number is a / (a + b), that of a gamma number a."""
    fb.manual_seed(0)
    a = fb.tensor([0.3, 2.0, 9.0], dtype=fb.float64, requires_grad=True)
    fb.distributions.Gamma(a, 1.0).rsample((20000,)).mean(0).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 1, rtol=0.05)
    a.grad = None
    fb.distributions.Beta(a, 2.0).rsample((20000,)).mean(0).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), (2 / (a + 2) ** 2).detach().numpy(), rtol=0.05)
