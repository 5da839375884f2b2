"""Divergences between distributions of two kinds: E_p[log p] - E_p[log q] from p's moments."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions._bounded import ContinuousBernoulli, Uniform
from flambeau.distributions._gamma import Beta, Exponential, Gamma
from flambeau.distributions._location import Laplace, Normal
from flambeau.distributions._powers import Pareto
from flambeau.distributions._transformed import Gumbel
from flambeau.distributions._trials import Bernoulli, Binomial, Poisson
from flambeau.distributions.kl import register_kl
from flambeau.distributions.utils import euler_constant


def _infinite_like(x: Tensor) -> Tensor:
    return flambeau.full_like(x, math.inf)


def _never_covers(kind: type, others: tuple[type, ...], name: str) -> None:
    """Register an infinite divergence: q does not cover the support of p. `name` is a parameter of p."""
    for other in others:
        register_kl(kind, other)(lambda p, q: _infinite_like(getattr(p, name)))


_never_covers(Beta, (Pareto,), "concentration1")
_never_covers(ContinuousBernoulli, (Pareto,), "probs")
_never_covers(Exponential, (Beta, ContinuousBernoulli, Pareto, Uniform), "rate")
_never_covers(Gamma, (Beta, ContinuousBernoulli, Pareto, Uniform), "concentration")
_never_covers(Gumbel, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), "loc")
_never_covers(Laplace, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), "loc")
_never_covers(Normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), "loc")
_never_covers(Pareto, (Beta, ContinuousBernoulli, Uniform), "scale")
_never_covers(Poisson, (Bernoulli, Binomial), "rate")


def _to_normal(p: Any, q: Normal) -> Tensor:
    """-E_p[log q]."""
    spread = (p.variance + (p.mean - q.loc).pow(2)) / (2 * q.scale.pow(2))
    return spread + q.scale.log() + 0.5 * math.log(2 * math.pi)


for _kind in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    register_kl(_kind, Normal)(lambda p, q: _to_normal(p, q) - p.entropy())


@register_kl(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Tensor:
    """Infinite where p has no variance."""
    out = _to_normal(p, q) - p.entropy()
    return flambeau.where(p.alpha <= 2, math.inf, out)


for _kind in (Beta, ContinuousBernoulli):
    register_kl(_kind, Exponential)(lambda p, q: -p.entropy() - q.rate.log() + q.rate * p.mean)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    """Infinite where p has no mean."""
    out = -p.entropy() - q.rate.log() + q.rate * p.mean
    return flambeau.where(p.alpha <= 1, math.inf, out)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    out = q.rate * p.mean - ((p.high - p.low) * q.rate).log()
    return out.masked_fill(p.low < 0, math.inf)


def _to_gamma(q: Gamma, mean: Tensor, mean_log: Tensor) -> Tensor:
    """-E_p[log q]."""
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    return norm - (q.concentration - 1) * mean_log + q.rate * mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Tensor:
    a = p.concentration1
    return _to_gamma(q, p.mean, a.digamma() - (a + p.concentration0).digamma()) - p.entropy()


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    return _to_gamma(q, p.mean, -p.rate.log() - euler_constant) - p.entropy()


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    """Infinite where p has no mean."""
    out = _to_gamma(q, p.mean, p.scale.log() + p.alpha.reciprocal()) - p.entropy()
    return flambeau.where(p.alpha <= 1, math.inf, out)


def _mean_log(p: Uniform) -> Tensor:
    """E[log x], for low >= 0."""
    high, low = flambeau.xlogy(p.high, p.high), flambeau.xlogy(p.low, p.low)
    return (high - low) / (p.high - p.low) - 1


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    out = _to_gamma(q, p.mean, _mean_log(p)) - p.entropy()
    return out.masked_fill(p.low < 0, math.inf)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    mirrored = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    out = norm - (a - 1) * _mean_log(p) - (b - 1) * _mean_log(mirrored) - p.entropy()
    return out.masked_fill((p.high > 1) | (p.low < 0), math.inf)


def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    """-E_p[log q], for p within [0, 1]."""
    return -p.mean * q.logits - flambeau.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return _to_continuous_bernoulli(p, q) - p.entropy()


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    out = _to_continuous_bernoulli(p, q) - p.entropy()
    return out.masked_fill((p.high > 1) | (p.low < 0), math.inf)


@register_kl(Beta, Uniform)
def _beta_uniform(p: Beta, q: Uniform) -> Tensor:
    out = q.entropy() - p.entropy()
    return out.masked_fill((q.low > 0) | (q.high < 1), math.inf)


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    out = q.entropy() - p.entropy()
    return out.masked_fill((q.low > 0) | (q.high < 1), math.inf)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    norm = q.alpha.log() + q.alpha * q.scale.log()
    out = (q.alpha + 1) * _mean_log(p) - norm - p.entropy()
    return out.masked_fill(p.low < q.scale, math.inf)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    """The expected |x - loc| is that of a folded normal number."""
    z = (p.loc - q.loc) / p.scale
    distance = p.scale * math.sqrt(2 / math.pi) * (-0.5 * z.pow(2)).exp()
    distance = distance + (p.loc - q.loc) * flambeau.erf(z / math.sqrt(2))
    return distance / q.scale + (2 * q.scale).log() - p.entropy()


def _to_gumbel(q: Gumbel, mean: Tensor, mean_exp: Tensor) -> Tensor:
    """-E_p[log q]; `mean_exp` is E[e^(-x / scale)]."""
    return q.scale.log() + (mean - q.loc) / q.scale + (q.loc / q.scale).exp() * mean_exp


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    exponent = ((q.loc - p.loc) / q.scale + 0.5 * ratio.pow(2)).exp()
    return q.scale.log() + (p.loc - q.loc) / q.scale + exponent - p.entropy()


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    scaled = p.rate * q.scale
    return _to_gumbel(q, p.mean, scaled / (scaled + 1)) - p.entropy()


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    mean_exp = (1 + (p.rate * q.scale).reciprocal()).pow(-p.concentration)
    return _to_gumbel(q, p.mean, mean_exp) - p.entropy()


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    low, high = (p.low - q.loc) / q.scale, (p.high - q.loc) / q.scale
    mean_exp = ((-low).exp() - (-high).exp()) / (high - low)
    return q.scale.log() + 0.5 * (low + high) + mean_exp - p.entropy()
