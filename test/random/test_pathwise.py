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


def dirichlet_reference(a: float, b: float, x: float) -> mp.mpf:
    """From the hypergeometric series of the distribution function or of its complement."""
    with mp.workdps(80):
        a, b, x = mp.mpf(a), mp.mpf(b), mp.mpf(x)
        below = x < 0.5
        y, q = (x, a + 1) if below else (1 - x, b + 1)
        total, slope, term, rate, n = mp.mpf(0), mp.mpf(0), mp.mpf(1), mp.mpf(0), 0
        while term > mp.mpf(10) ** -45 * total:
            total, slope = total + term, slope + term * rate
            rate += 1 / (a + b + n) - (1 / (a + 1 + n) if below else 0)
            term *= y * (a + b + n) / (q + n)
            n += 1
        step = mp.log(x) + mp.digamma(a + b) - mp.digamma(a + 1 if below else a)
        return (-x / a if below else x / b) * (total * step + slope)


def long_dirichlet_reference(a: float, b: float, x: float) -> float:
    """The same for samples on the smaller concentration's side of the mean, where all terms are positive."""
    below = a <= b
    p, s, n = np.longdouble(a), np.longdouble(a) + np.longdouble(b), np.arange(400_000, dtype=np.longdouble)
    y, q = (np.longdouble(x), p + 1) if below else (1 - np.longdouble(x), s - p + 1)
    terms = np.concatenate([[1], np.cumprod(y * (s + n) / (q + n))])
    rates = np.concatenate([[0], np.cumsum((1 + p - s) / ((s + n) * (q + n)) if below else 1 / (s + n))])
    with mp.workdps(30):
        step = np.longdouble(str(mp.log(x) + mp.digamma(a + b) - mp.digamma(a + 1 if below else a)))
    return float((-x / a if below else x / b) * (terms.sum() * step + (terms * rates).sum()))


# The numbers that the kernel's head names, near and far from each other; and 1000 and more, where integrals
# take over from series.
LOPSIDED = [1e-8, 3e-5, 0.02, 1.0, 700.0, 3e4, 1e8]


@pytest.mark.parametrize("b", LOPSIDED)
@pytest.mark.parametrize("a", LOPSIDED)
def test_dirichlet_over_the_whole_range(a: float, b: float):
    """Samples up to four deviations from the mean, or shares of what is left below it and above."""
    total = a + b
    b = float(np.float64(total) - a)
    mean, deviation = a / total, (a / total * (b / total) / (1 + total)) ** 0.5
    samples = [mean + z * deviation for z in (-4, -0.3, 0.2, 4)] + [mean * 1e-3, mean / 2, 1 - (1 - mean) / 3]
    # Beyond 1e4 the exact reference takes too long.
    short = min(a, b) <= 1e4
    reference = dirichlet_reference if short else long_dirichlet_reference
    samples = samples if short else samples[:2] if a <= b else samples[2:4]
    samples = [x for x in samples if 1e-200 < x < 1]
    if b <= 0 or not samples:
        return
    columns = [fb.tensor(c, dtype=fb.float64) for c in (samples, [a] * len(samples), [total] * len(samples))]
    found = fb._dirichlet_grad(*columns).tolist()
    for x, value in zip(samples, found, strict=True):
        assert abs(value / reference(a, b, x) - 1) < BOUND, (a, b, x)


@pytest.mark.parametrize("dtype", [fb.float32, fb.float16, fb.bfloat16])
def test_smaller_dtypes_round_the_double_result(dtype: fb.dtype):
    """Blocks of elements that take every way, some out of range; memory that is not contiguous."""
    fb.manual_seed(0)
    bound = {fb.float32: 1e-5, fb.float16: 2**-10, fb.bfloat16: 2**-7}[dtype]
    a = (10 ** (fb.rand(37, 9, dtype=fb.float64) * 6 - 3)).to(dtype).t()
    x = (a.double() * (0.2 + fb.rand(9, 37, dtype=fb.float64) * 2)).to(dtype)
    exact, found = fb._standard_gamma_grad(a.double(), x.double()), fb._standard_gamma_grad(a, x)
    inside = exact.abs() < fb.finfo(dtype).max / 2
    np.testing.assert_allclose(
        found.double()[inside].numpy(), exact[inside].numpy(), rtol=bound, atol=fb.finfo(dtype).tiny
    )
    share, total = fb.rand(9, 37, dtype=dtype).clamp(0.01, 0.98), (a * 3).to(dtype)
    exact = fb._dirichlet_grad(share.double(), a.double(), total.double())
    found = fb._dirichlet_grad(share, a, total)
    inside = exact.abs() < fb.finfo(dtype).max / 2
    np.testing.assert_allclose(
        found.double()[inside].numpy(), exact[inside].numpy(), rtol=bound, atol=fb.finfo(dtype).tiny
    )


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
def test_an_element_does_not_see_its_block(count: int):
    nan, inf = float("nan"), float("inf")
    strange = [(nan, 1.0), (inf, inf), (2.0, inf), (-1.0, 2.0), (1e300, 1e300), (0.5, 0.0), (1e-300, 1e-300)]
    pairs = [strange[i % 7] if i % 3 == 0 else (0.1 * i + 0.01, 0.11 * i + 0.02) for i in range(count)]
    a, x = (fb.tensor(c, dtype=fb.float64) for c in zip(*pairs, strict=True))
    alone = fb.cat([fb._standard_gamma_grad(a[i : i + 1], x[i : i + 1]) for i in range(count)])
    np.testing.assert_allclose(fb._standard_gamma_grad(a, x).numpy(), alone.numpy(), rtol=1e-11)
    share, total = x / (1 + x), 2 * a + 1
    alone = fb.cat([fb._dirichlet_grad(*(t[i : i + 1] for t in (share, a, total))) for i in range(count)])
    np.testing.assert_allclose(fb._dirichlet_grad(share, a, total).numpy(), alone.numpy(), rtol=1e-11)


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
