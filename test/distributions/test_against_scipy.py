"""Densities, distribution functions, quantiles, moments and entropies over grids, as scipy.stats has them."""

from __future__ import annotations

import flambeau as fb
import flambeau.distributions as d
import numpy as np
import pytest
from scipy import stats

PROBABILITIES = np.array([1e-6, 0.03, 0.2, 0.5, 0.77, 0.999, 1 - 1e-9])
LOC, SCALE = np.array([-3.0, 0.0, 1e3]), np.array([[1e-3], [1.0], [40.0]])
SHAPES = np.array([[0.05], [0.9], [1.0], [3.5], [200.0]])
PROBS = np.array([1e-4, 0.3, 0.5, 0.98])
CONTINUOUS = ("log_prob", "cdf", "icdf", "mean", "variance", "entropy")


def t(x):
    return fb.tensor(np.asarray(x, dtype=np.float64))


def of_location_and_scale():
    pairs = {"Normal": stats.norm, "Laplace": stats.laplace, "Cauchy": stats.cauchy, "Gumbel": stats.gumbel_r}
    made = {name: (getattr(d, name)(t(LOC), t(SCALE)), kind(LOC, SCALE)) for name, kind in pairs.items()}
    loc, scale = np.array([-1.0, 0.0, 2.0]), np.array([[0.1], [1.0], [2.5]])
    made["LogNormal"] = d.LogNormal(t(loc), t(scale)), stats.lognorm(s=scale, scale=np.exp(loc))
    made["Uniform"] = d.Uniform(t(LOC), t(LOC + SCALE)), stats.uniform(LOC, SCALE)
    made["Exponential"] = d.Exponential(t(SCALE)), stats.expon(scale=1 / SCALE)
    made["HalfNormal"] = d.HalfNormal(t(SCALE)), stats.halfnorm(scale=SCALE)
    made["HalfCauchy"] = d.HalfCauchy(t(SCALE)), stats.halfcauchy(scale=SCALE)
    return made


def of_shape():
    a, b = SHAPES, np.array([0.3, 1.0, 8.0])
    return {
        "Gamma": (d.Gamma(t(a), t(b)), stats.gamma(a, scale=1 / b)),
        "Chi2": (d.Chi2(t(a)), stats.chi2(a)),
        "Beta": (d.Beta(t(a), t(b)), stats.beta(a, b)),
        "InverseGamma": (d.InverseGamma(t(a), t(b)), stats.invgamma(a, scale=b)),
        "Weibull": (d.Weibull(t(b), t(a[1:])), stats.weibull_min(a[1:], scale=b)),
        "Pareto": (d.Pareto(t(b), t(a[1:])), stats.pareto(a[1:], scale=b)),
        "FisherSnedecor": (d.FisherSnedecor(t(a), t(b)), stats.f(a, b)),
        "StudentT": (d.StudentT(t(a), t(LOC), 2.0), stats.t(a, LOC, 2.0)),
        "GeneralizedPareto": (
            d.GeneralizedPareto(t(LOC), t(2.0), t([[-0.4], [0.0], [0.2], [1.5]])),
            stats.genpareto([[-0.4], [0.0], [0.2], [1.5]], LOC, 2.0),
        ),
        "VonMises": (d.VonMises(t([-3.0, 0.0, 1.0]), t([[1e-3], [1.0], [60.0]])),
                     stats.vonmises([[1e-3], [1.0], [60.0]], [-3.0, 0.0, 1.0])),
    }  # fmt: skip


def counts():
    n, rates = np.array([[1.0], [7.0], [300.0]]), np.array([1e-3, 1.0, 55.0])
    return {
        "Bernoulli": (d.Bernoulli(t(PROBS)), stats.bernoulli(PROBS)),
        "Geometric": (d.Geometric(t(PROBS)), stats.geom(PROBS, loc=-1)),
        "Poisson": (d.Poisson(t(rates)), stats.poisson(rates)),
        "Binomial": (d.Binomial(t(n), t(PROBS)), stats.binom(n, PROBS)),
        "NegativeBinomial": (d.NegativeBinomial(t(n), t(PROBS)), stats.nbinom(n, 1 - PROBS)),
    }


# What PyTorch does not offer of a family, and so is not asked here; every other measure must be there.
ABSENT = {
    "Beta": {"cdf", "icdf"}, "FisherSnedecor": {"cdf", "icdf", "entropy"}, "StudentT": {"cdf", "icdf"},
    "VonMises": {"cdf", "icdf", "variance", "entropy"}, "Gamma": {"icdf"}, "Chi2": {"icdf"},
    "InverseGamma": {"icdf"},
}  # fmt: skip
# Moments that scipy does not say as the family's formula does: NaN where they do not exist.
CONTINUOUS_KINDS = {**of_location_and_scale(), **of_shape()}
CASES = [(n, m) for n in CONTINUOUS_KINDS for m in CONTINUOUS if m not in ABSENT.get(n, ())]


def close(found, expected, rtol=1e-9, atol=0.0):
    np.testing.assert_allclose(
        found.numpy(), np.broadcast_to(expected, found.shape), rtol, atol, equal_nan=True
    )


def quantiles(reference):
    shape = np.shape(reference.mean())
    return reference.ppf(PROBABILITIES.reshape(-1, *[1] * len(shape)) * np.ones(shape))


@pytest.mark.parametrize(("name", "measure"), CASES)
def test_continuous(name, measure):
    ours, reference = CONTINUOUS_KINDS[name]
    if measure in ("log_prob", "cdf"):
        points = quantiles(reference)
        points[~np.isfinite(points)] = 1.0
        inside = ours.support.check(t(points)).numpy()
        points = np.where(inside, points, np.broadcast_to(quantiles(reference)[3], points.shape))
        expected = getattr(reference, {"log_prob": "logpdf"}.get(measure, measure))(points)
        close(getattr(ours, measure)(t(points)), expected, 1e-8, 1e-10)
    elif measure == "icdf":
        shape = np.shape(reference.mean())
        p = PROBABILITIES.reshape(-1, *[1] * len(shape)) * np.ones(shape)
        close(ours.icdf(t(p)), reference.ppf(p), 1e-6, 1e-9)
    else:
        expected = {"mean": reference.mean, "variance": reference.var, "entropy": reference.entropy}[
            measure
        ]()
        found = getattr(ours, measure)
        found = found() if callable(found) else found
        exists = np.isfinite(expected) & np.isfinite(found.numpy())
        assert exists.any() or name in ("Cauchy", "HalfCauchy")
        close(found[fb.tensor(exists)], np.broadcast_to(expected, exists.shape)[exists], 1e-8, 1e-12)
        assert not np.isfinite(found.numpy()[~exists & ~np.isfinite(expected)]).any()


@pytest.mark.parametrize("name", counts())
def test_counts(name):
    ours, reference = counts()[name]
    shape = np.shape(reference.mean())
    points = reference.ppf(PROBABILITIES[:-1].reshape(-1, *[1] * len(shape)) * np.ones(shape))
    points = np.maximum(points, 0.0)
    close(ours.log_prob(t(points)), reference.logpmf(points), 1e-7, 1e-9)
    close(ours.mean, reference.mean(), 1e-9)
    close(ours.variance, reference.var(), 1e-9)
    if name in ("Bernoulli", "Geometric"):
        close(ours.entropy(), reference.entropy(), 1e-6, 1e-9)
    if name == "Binomial":
        same = d.Binomial(7, t(PROBS))
        close(same.entropy(), stats.binom(7, PROBS).entropy(), 1e-7)


def test_vectors():
    mean, matrix = np.array([1.0, -2.0, 0.5]), np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.4], [0.1, -0.4, 0.7]])
    points = np.random.default_rng(0).normal(size=(5, 3))
    reference = stats.multivariate_normal(mean, matrix)
    given = [{"covariance_matrix": t(matrix)}, {"precision_matrix": t(np.linalg.inv(matrix))},
             {"scale_tril": t(np.linalg.cholesky(matrix))}]  # fmt: skip
    for parameter in given:
        ours = d.MultivariateNormal(t(mean), **parameter)
        close(ours.log_prob(t(points)), reference.logpdf(points), 1e-9)
        close(ours.entropy(), reference.entropy())
        close(ours.variance, np.diag(matrix))
    factor, rest = np.array([[1.0], [0.5], [-0.3]]), np.array([0.2, 1.0, 3.0])
    low = d.LowRankMultivariateNormal(t(mean), t(factor), t(rest))
    reference = stats.multivariate_normal(mean, factor @ factor.T + np.diag(rest))
    close(low.log_prob(t(points)), reference.logpdf(points))
    close(low.entropy(), reference.entropy())
    close(low.covariance_matrix, factor @ factor.T + np.diag(rest))


def test_shares_and_trials():
    concentration = np.array([0.4, 1.0, 7.0])
    shares = np.random.default_rng(0).dirichlet(concentration, 4)
    ours, reference = d.Dirichlet(t(concentration)), stats.dirichlet(concentration)
    close(ours.log_prob(t(shares)), reference.logpdf(shares.T))
    close(ours.mean, reference.mean())
    close(ours.variance, reference.var())
    close(ours.entropy(), reference.entropy())
    p, trials = np.array([0.2, 0.5, 0.3]), np.array([[2.0, 3.0, 1.0], [6.0, 0.0, 0.0], [0.0, 1.0, 5.0]])
    ours, reference = d.Multinomial(6, t(p)), stats.multinomial(6, p)
    close(ours.log_prob(t(trials)), reference.logpmf(trials))
    close(ours.mean, reference.mean())
    close(ours.variance, np.diag(reference.cov()))
    close(ours.entropy(), reference.entropy())
    for kind, points in ((d.Categorical, np.arange(3.0)), (d.OneHotCategorical, np.eye(3))):
        close(kind(t(p)).log_prob(t(points)), np.log(p))
        close(kind(t(p)).entropy(), stats.entropy(p))


def test_matrices():
    scale, df = np.array([[2.0, 0.3], [0.3, 1.0]]), 4.5
    ours, reference = d.Wishart(t(df), covariance_matrix=t(scale)), stats.wishart(df, scale)
    points = np.stack([scale * 3, np.eye(2), np.array([[5.0, -2.0], [-2.0, 4.0]])])
    close(ours.log_prob(t(points)), reference.logpdf(np.moveaxis(points, 0, -1)))
    close(ours.mean, reference.mean())
    close(ours.variance, reference.var())
    close(ours.entropy(), reference.entropy())


def test_a_mixture_is_the_sum_of_its_parts():
    weights, loc, scale = np.array([0.2, 0.5, 0.3]), np.array([-1.0, 0.0, 4.0]), np.array([0.5, 1.0, 2.0])
    ours = d.MixtureSameFamily(d.Categorical(t(weights)), d.Normal(t(loc), t(scale)))
    points, reference = np.linspace(-6, 10, 9), stats.norm(loc, scale)
    close(ours.log_prob(t(points)), np.log((weights * reference.pdf(points[:, None])).sum(-1)))
    close(ours.cdf(t(points)), (weights * reference.cdf(points[:, None])).sum(-1))
    mean = (weights * loc).sum()
    close(ours.mean, mean)
    close(ours.variance, (weights * (scale**2 + loc**2)).sum() - mean**2)


@pytest.mark.parametrize("p", [0.02, 0.3, 0.5, 0.51, 0.97])
def test_a_continuous_bernoulli_is_a_truncated_exponential(p):
    ours, x = d.ContinuousBernoulli(t(p)), np.linspace(0.01, 0.99, 7)
    rate = np.log((1 - p) / p)
    if p == 0.5:
        reference, values, sign = stats.uniform(), x, 1
    else:
        sign = np.sign(rate)
        reference, values = stats.truncexpon(abs(rate), scale=1 / abs(rate)), x if sign > 0 else 1 - x
    close(ours.log_prob(t(x)), reference.logpdf(values), 1e-6, 1e-7)
    close(ours.cdf(t(x)), reference.cdf(values) if sign > 0 else reference.sf(values), 1e-6)
    close(ours.mean, reference.mean() if sign > 0 else 1 - reference.mean(), 1e-6)
    close(ours.variance, reference.var(), 1e-5)
    close(ours.icdf(ours.cdf(t(x))), x, 1e-6)


@pytest.mark.parametrize(("a", "b"), [(0.5, 2.0), (1.0, 1.0), (3.0, 0.7)])
def test_kumaraswamy_is_a_power_of_a_beta(a, b):
    ours, x = d.Kumaraswamy(t(a), t(b)), np.linspace(0.05, 0.95, 7)
    expected = stats.beta(1, b).logpdf(x**a) + np.log(a) + (a - 1) * np.log(x)
    close(ours.log_prob(t(x)), expected)
    close(ours.cdf(t(x)), stats.beta(1, b).cdf(x**a))
    grid = (np.arange(200000) + 0.5) / 200000
    samples = (1 - (1 - grid) ** (1 / b)) ** (1 / a)
    close(ours.mean, samples.mean(), 1e-4)
    close(ours.variance, samples.var(), 1e-3)
