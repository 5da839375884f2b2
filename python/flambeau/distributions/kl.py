"""The Kullback-Leibler divergence, by pairs of kinds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions.continuous import (
    EULER,
    Cauchy,
    Exponential,
    Gumbel,
    Laplace,
    LogNormal,
    Normal,
    Uniform,
)
from flambeau.distributions.discrete import Bernoulli, Categorical, Geometric, Poisson
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.joint import Independent, MultivariateNormal

Rule = Callable[[Any, Any], Tensor]
_rules: dict[tuple[type, type], Rule] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[Rule], Rule]:
    """Decorate the function that computes KL(p || q) for two kinds and their subclasses."""
    for kind in (type_p, type_q):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"register_kl: expected subclasses of Distribution, got {kind}")

    def decorate(rule: Rule) -> Rule:
        _rules[type_p, type_q] = rule
        return rule

    return decorate


def _rule_for(p: type, q: type) -> Rule | None:
    """The rule of the closest pair of base classes."""
    found = [
        (p.__mro__.index(a) + q.__mro__.index(b), i, rule)
        for i, ((a, b), rule) in enumerate(_rules.items())
        if issubclass(p, a) and issubclass(q, b)
    ]
    return min(found)[2] if found else None


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    r"""Return how much q misses of p: :math:`E_p[\log p - \log q]`, in nats.

    Raises: NotImplementedError for kinds without a rule; `register_kl` adds one.
    """
    rule = _rule_for(type(p), type(q))
    if rule is None:
        raise NotImplementedError(f"No KL(p || q) is implemented for {type(p).__name__}, {type(q).__name__}")
    return rule(p, q)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    return _normal(p, q)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    squares = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return squares.log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc) / q.scale
    expected = (flambeau.lgamma(1 + ratio) - distance).exp()
    return distance + ratio * EULER + expected - ratio.log() - (1 + EULER)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    out = ((q.high - q.low) / (p.high - p.low)).log()
    return out.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - flambeau.log1p(-q.probs) / p.probs - q.logits


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    def part(a: Tensor, b: Tensor) -> Tensor:
        out = a * (a / b).log()
        return out.masked_fill(b == 0, math.inf).masked_fill(a == 0, 0)

    return part(p.probs, q.probs) + part(1 - p.probs, 1 - q.probs)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    out = p.probs * (p.logits - q.logits)
    out = out.masked_fill((q.probs == 0).expand_as(out), math.inf)
    return out.masked_fill((p.probs == 0).expand_as(out), 0).sum(-1)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two Multivariate Normals with different event shapes: "
            f"{tuple(p.event_shape)}, {tuple(q.event_shape)}"
        )
    relative = flambeau.linalg.solve_triangular(q._factor, p._factor, upper=False)
    spread = relative.square().sum((-2, -1)) + q._distance(q.loc - p.loc) - p.event_shape[0]
    return q._half_log_det() - p._half_log_det() + 0.5 * spread


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of two Independent: expected equal reinterpreted_batch_ndims")
    return p._summed(kl_divergence(p.base_dist, q.base_dist))
