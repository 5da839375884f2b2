"""Divergences between distributions of one kind."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions._bounded import ContinuousBernoulli, Uniform
from flambeau.distributions._classes import Categorical, OneHotCategorical
from flambeau.distributions._composed import Independent
from flambeau.distributions._gamma import Beta, Dirichlet, Exponential, Gamma
from flambeau.distributions._location import Cauchy, Laplace, Normal
from flambeau.distributions._matrix import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    _batch_lowrank_mahalanobis,
    _batch_mahalanobis,
    _half_log_det,
)
from flambeau.distributions._powers import Pareto
from flambeau.distributions._transformed import Gumbel, HalfNormal, TransformedDistribution
from flambeau.distributions._trials import Bernoulli, Binomial, Geometric, Poisson
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.kl import kl_divergence, register_kl
from flambeau.distributions.utils import _sum_rightmost, euler_constant


def _surprise(a: Tensor, b: Tensor) -> Tensor:
    """A log(a / b): 0 where a is 0, infinite where only b is 0."""
    out = a * (a / b).log()
    return out.masked_fill(b == 0, math.inf).masked_fill(a == 0, 0)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    return _surprise(p.probs, q.probs) + _surprise(1 - p.probs, 1 - q.probs)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    """Infinite where p has more trials than q, as in PyTorch; not implemented where it has fewer."""
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("kl_divergence: expected p.total_count >= q.total_count of two Binomials")
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    divergence = p.total_count * each
    return divergence.masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    out = p.probs * (p.logits - q.logits)
    out = out.masked_fill((q.probs == 0).expand_as(out), math.inf)
    return out.masked_fill((p.probs == 0).expand_as(out), 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    slope = p.mean * (p.logits - q.logits)
    own = p._cont_bern_log_norm() + flambeau.log1p(-p.probs)
    return slope + own - q._cont_bern_log_norm() - flambeau.log1p(-q.probs)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    total_p, total_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    norm_p = p.concentration1.lgamma() + p.concentration0.lgamma() + total_q.lgamma()
    norm_q = q.concentration1.lgamma() + q.concentration0.lgamma() + total_p.lgamma()
    ones = (p.concentration1 - q.concentration1) * p.concentration1.digamma()
    zeros = (p.concentration0 - q.concentration0) * p.concentration0.digamma()
    return norm_q - norm_p + ones + zeros + (total_q - total_p) * total_p.digamma()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b, total = p.concentration, q.concentration, p.concentration.sum(-1)
    norms = total.lgamma() - b.sum(-1).lgamma() + (b.lgamma() - a.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    rates = q.concentration * (p.rate / q.rate).log()
    norms = flambeau.lgamma(q.concentration) - flambeau.lgamma(p.concentration)
    shapes = (p.concentration - q.concentration) * flambeau.digamma(p.concentration)
    return rates + norms + shapes + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - flambeau.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Chyzak & Nielsen 2019, "A closed-form formula for the Kullback-Leibler divergence between Cauchys"."""
    squares = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return squares.log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc) / q.scale
    expected = (flambeau.lgamma(1 + ratio) - distance).exp()
    return distance + ratio * euler_constant + expected - ratio.log() - (1 + euler_constant)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    divergence = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return divergence.masked_fill(p.support.lower_bound < q.support.lower_bound, math.inf)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    out = ((q.high - q.low) / (p.high - p.low)).log()
    return out.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


def _same_events(p: Any, q: Any, kind: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"kl_divergence: expected two {kind} of one event shape, got {tuple(p.event_shape)} and "
            f"{tuple(q.event_shape)}"
        )


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    _same_events(p, q, "Multivariate Normals")
    root_p, root_q = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    relative = flambeau.linalg.solve_triangular(root_q, root_p, upper=False)
    distance = _batch_mahalanobis(root_q, q.loc - p.loc)
    spread = relative.square().sum((-2, -1)) + distance - p.event_shape[0]
    return _half_log_det(root_q) - _half_log_det(root_p) + 0.5 * spread


def _in_low_rank(q: LowRankMultivariateNormal, columns: Tensor) -> Tensor:
    """tr(cov_q^-1 C C^T) for the columns of C."""
    diagonal, factor = q._unbroadcasted_cov_diag, q._unbroadcasted_cov_factor
    plain = (columns.square() / diagonal.unsqueeze(-1)).sum((-2, -1))
    scaled = (factor.mT / diagonal.unsqueeze(-2)) @ columns
    inner = flambeau.linalg.solve_triangular(q._capacitance_tril, scaled, upper=False)
    return plain - inner.square().sum((-2, -1))


def _to_low_rank(p: Any, q: LowRankMultivariateNormal, trace: Tensor, log_det_p: Tensor) -> Tensor:
    distance = _batch_lowrank_mahalanobis(
        q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q.loc - p.loc, q._capacitance_tril
    )
    return 0.5 * (q._log_det() - log_det_p + trace + distance - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _same_events(p, q, "Low Rank Multivariate Normals")
    diagonal = flambeau.diag_embed(p._unbroadcasted_cov_diag.sqrt())
    trace = _in_low_rank(q, p._unbroadcasted_cov_factor) + _in_low_rank(q, diagonal)
    return _to_low_rank(p, q, trace, p._log_det())


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_to_low_rank(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _same_events(p, q, "(Low Rank) Multivariate Normals")
    root = p._unbroadcasted_scale_tril
    return _to_low_rank(p, q, _in_low_rank(q, root), 2 * _half_log_det(root))


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_to_full(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    _same_events(p, q, "(Low Rank) Multivariate Normals")
    root = q._unbroadcasted_scale_tril
    columns = flambeau.cat((p.cov_factor, flambeau.diag_embed(p.cov_diag.sqrt())), -1)
    relative = flambeau.linalg.solve_triangular(root, columns, upper=False)
    distance = _batch_mahalanobis(root, q.loc - p.loc)
    spread = relative.square().sum((-2, -1)) + distance - p.event_shape[0]
    return 0.5 * (2 * _half_log_det(root) - p._log_det() + spread)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """F(theta_q) - F(theta_p) - <theta_q - theta_p, grad F(theta_p)>, a Bregman divergence."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "kl_divergence: a Bregman divergence needs two distributions of one family, got "
            f"{type(p).__name__} and {type(q).__name__}"
        )
    params, normalizer, gradients = p._normalizer_gradients()
    others = q._natural_params
    result = q._log_normalizer(*others) - normalizer
    for own, other, gradient in zip(params, others, gradients, strict=True):
        result = result - _sum_rightmost((other - own) * gradient, len(q.event_shape))
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """Equal transforms do not change the divergence."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "kl_divergence: expected equal transforms of two TransformedDistributions, got different ones"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Independent[Any], q: Independent[Any]) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "kl_divergence: expected equal reinterpreted_batch_ndims of two Independents, got different ones"
        )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
