"""Probability distributions: samples, differentiable samples, densities, entropies, divergences."""

from flambeau.distributions import constraints
from flambeau.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    Laplace,
    LogNormal,
    Normal,
    Uniform,
)
from flambeau.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.joint import Independent, MultivariateNormal
from flambeau.distributions.kl import kl_divergence, register_kl

__all__ = [
    "Bernoulli",
    "Categorical",
    "Cauchy",
    "Distribution",
    "Exponential",
    "Geometric",
    "Gumbel",
    "Independent",
    "Laplace",
    "LogNormal",
    "MultivariateNormal",
    "Normal",
    "OneHotCategorical",
    "Poisson",
    "Uniform",
    "constraints",
    "kl_divergence",
    "register_kl",
]
