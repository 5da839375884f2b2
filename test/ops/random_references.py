"""References of operators on random samples, by adaptive quadrature of their definitions."""

from __future__ import annotations

import numpy as np
import scipy.integrate
import scipy.special as sp


def _up_to(x: float, integrand: object) -> float:
    return scipy.integrate.quad(integrand, 0, x, epsabs=0, epsrel=1e-10, limit=400)[0]


@np.vectorize
def gamma_sample_gradient(a: float, x: float) -> float:
    """-(dP/da) / p, P the distribution function and p the density of a gamma distribution."""
    a, x = float(a), float(x)

    def relative_density(t: float) -> float:
        return np.exp((a - 1) * np.log(t / x) - (t - x))

    return _up_to(x, lambda t: (sp.digamma(a) - np.log(t)) * relative_density(t))


@np.vectorize
def dirichlet_sample_gradient(x: float, a: float, total: float) -> float:
    """That of a beta distribution of concentrations a and total - a, divided by 1 - x."""
    x, a, b = float(x), float(a), float(total) - float(a)

    def relative_density(t: float) -> float:
        return (t / x) ** (a - 1) * ((1 - t) / (1 - x)) ** (b - 1)

    shift = sp.digamma(a) - sp.digamma(a + b)
    return _up_to(x, lambda t: (shift - np.log(t)) * relative_density(t)) / (1 - x)
