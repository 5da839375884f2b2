"""One batch of each family, with another one of its kind and values to ask about.

Written for any module with PyTorch's interface; parameters are double, so that both agree to many digits.
"""

from __future__ import annotations

import importlib
from typing import Any

SHAPE = (2, 3)


def of(torch: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Name -> (distribution, another one of its kind, values)."""
    d = importlib.import_module(f"{torch.__name__}.distributions")
    rooms = (_numbers, _more_numbers, _counts, _vectors, _points, _matrices)
    return {name: entry for room in rooms for name, entry in room(torch, d).items()}


def _t(torch: Any, values: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64)


def _numbers(torch: Any, d: Any) -> dict[str, tuple[Any, Any, Any]]:
    loc, scale = _t(torch, [0.3, -1.0, 2.0]), _t(torch, [[0.5], [2.0]])
    a, b = _t(torch, [[0.4, 1.0, 7.0], [2.5, 30.0, 0.9]]), _t(torch, [2.0, 0.7, 3.1])
    reals, units = _t(torch, [0.1, -2.0, 3.0]), _t(torch, [0.2, 0.9, 0.5])
    found = {
        name: (getattr(d, name)(loc, scale), getattr(d, name)(loc - 0.5, 1.5 * scale), reals)
        for name in ("Normal", "Laplace", "Cauchy", "Gumbel")
    }
    found |= {
        name: (getattr(d, name)(a, b), getattr(d, name)(a + 0.5, b * 1.5), units)
        for name in ("Gamma", "Beta", "InverseGamma", "Kumaraswamy", "Weibull", "FisherSnedecor")
    }
    found |= {
        name: (getattr(d, name)(scale.expand(SHAPE)), getattr(d, name)(scale * 1.5), units)
        for name in ("Exponential", "Chi2", "HalfNormal", "HalfCauchy")
    }
    return found


def _more_numbers(torch: Any, d: Any) -> dict[str, tuple[Any, Any, Any]]:
    loc, scale = _t(torch, [0.3, -1.0, 2.0]), _t(torch, [[0.5], [2.0]])
    a, b = _t(torch, [[0.4, 1.0, 7.0], [2.5, 30.0, 0.9]]), _t(torch, [2.0, 0.7, 3.1])
    reals, units = _t(torch, [0.1, -2.0, 3.0]), _t(torch, [0.2, 0.9, 0.5])
    temperature = _t(torch, 0.7)
    affine = [d.AffineTransform(loc, scale), d.TanhTransform()]
    return {
        "LogNormal": (d.LogNormal(loc, scale), d.LogNormal(loc, scale + 1), units + 1),
        "Uniform": (d.Uniform(loc, loc + 2), d.Uniform(loc - 1, loc + 9), loc + units),
        "Pareto": (d.Pareto(scale, b), d.Pareto(scale * 0.5, b + 1), units + 2),
        "StudentT": (d.StudentT(a, loc, scale), d.StudentT(a + 1), reals),
        "VonMises": (d.VonMises(loc, scale), d.VonMises(loc, scale * 30), reals),
        "ContinuousBernoulli": (
            d.ContinuousBernoulli(_t(torch, [0.2, 0.4995, 0.9])),
            d.ContinuousBernoulli(logits=reals),
            units,
        ),
        "GeneralizedPareto": (
            d.GeneralizedPareto(loc.float(), scale.float(), torch.tensor([0.4, 0.0, -0.2])),
            d.GeneralizedPareto(loc.float(), scale.float(), 0.45),
            (loc + units).float(),
        ),
        "RelaxedBernoulli": (
            d.RelaxedBernoulli(temperature, units),
            d.RelaxedBernoulli(temperature, logits=reals),
            units,
        ),
        "TransformedDistribution": (
            d.TransformedDistribution(d.Normal(loc, scale), affine),
            d.TransformedDistribution(d.Normal(loc, scale * 2), affine),
            units,
        ),
    }


def _counts(torch: Any, d: Any) -> dict[str, tuple[Any, Any, Any]]:
    units, reals = _t(torch, [0.2, 0.9, 0.5]), _t(torch, [0.1, -2.0, 3.0])
    return {
        "Bernoulli": (d.Bernoulli(units), d.Bernoulli(logits=reals), _t(torch, [0.0, 1.0, 1.0])),
        "Bernoulli logits": (d.Bernoulli(logits=reals), d.Bernoulli(units), _t(torch, [1.0, 0.0, 1.0])),
        "Geometric": (d.Geometric(units), d.Geometric(logits=reals), _t(torch, [0.0, 2.0, 5.0])),
        "Poisson": (d.Poisson(units * 50), d.Poisson(units), _t(torch, [0.0, 3.0, 7.0])),
        "Binomial": (d.Binomial(60, units), d.Binomial(60, logits=reals), _t(torch, [0.0, 3.0, 7.0])),
        "NegativeBinomial": (
            d.NegativeBinomial(units * 9, units),
            d.NegativeBinomial(3.0, logits=reals),
            _t(torch, [0.0, 3.0, 7.0]),
        ),
    }


def _vectors(torch: Any, d: Any) -> dict[str, tuple[Any, Any, Any]]:
    rows, square = _t(torch, [[0.1, 0.7, 0.2], [0.5, 0.25, 0.25]]), _t(torch, [[2.0, 0.3], [0.3, 1.0]])
    hot = _t(torch, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    points, shares = _t(torch, [[0.5, 1.0], [0.0, -1.0]]), _t(torch, [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
    temperature, classes = _t(torch, 0.7), torch.tensor([2, 0])
    found = {
        "Categorical": (d.Categorical(rows), d.Categorical(logits=rows), classes),
        "Categorical logits": (d.Categorical(logits=rows), d.Categorical(rows), classes),
        "OneHotCategorical": (d.OneHotCategorical(rows), d.OneHotCategorical(logits=rows), hot),
        "OneHotCategoricalStraightThrough": (
            d.OneHotCategoricalStraightThrough(rows),
            d.OneHotCategoricalStraightThrough(logits=rows),
            hot,
        ),
        "Multinomial": (d.Multinomial(5, rows), d.Multinomial(5, logits=rows), hot * 4 + hot.flip(-1)),
        "RelaxedOneHotCategorical": (
            d.RelaxedOneHotCategorical(temperature, rows),
            d.RelaxedOneHotCategorical(temperature, logits=rows),
            shares,
        ),
        "Dirichlet": (d.Dirichlet(rows * 9), d.Dirichlet(rows), shares),
        "LogisticNormal": (
            d.LogisticNormal(points, square.exp()),
            d.LogisticNormal(points, points.exp()),
            shares,
        ),
    }
    return found


def _points(torch: Any, d: Any) -> dict[str, tuple[Any, Any, Any]]:
    rows = _t(torch, [[0.1, 0.7, 0.2], [0.5, 0.25, 0.25]])
    loc, square = _t(torch, [0.5, -1.0]), _t(torch, [[2.0, 0.3], [0.3, 1.0]])
    points, factor = _t(torch, [[0.5, 1.0], [0.0, -1.0]]), _t(torch, [[[1.0], [0.5]], [[0.2], [2.0]]])
    diagonal = _t(torch, [0.5, 2.0])
    found = {
        "Independent": (
            d.Independent(d.Normal(points, points.exp()), 1),
            d.Independent(d.Normal(points + 1, _t(torch, 1.0)), 1),
            points,
        ),
        "MixtureSameFamily": (
            d.MixtureSameFamily(d.Categorical(rows), d.Normal(rows, rows + 0.1)),
            d.MixtureSameFamily(d.Categorical(rows[0]), d.Normal(rows, rows)),
            points[0],
        ),
        "MixtureSameFamily of vectors": (
            d.MixtureSameFamily(
                d.Categorical(rows[:, :2]),
                d.MultivariateNormal(points.unsqueeze(0).expand(2, 2, 2), square),
            ),
            d.Normal(loc, diagonal),
            points,
        ),
        "LowRankMultivariateNormal": (
            d.LowRankMultivariateNormal(loc, factor, diagonal),
            d.LowRankMultivariateNormal(loc, factor * 2, diagonal),
            points,
        ),
    }
    for name in ("covariance_matrix", "precision_matrix", "scale_tril"):
        matrix = square if name != "scale_tril" else torch.linalg.cholesky(square)
        p = d.MultivariateNormal(loc, **{name: matrix})
        q = d.MultivariateNormal(points, torch.eye(2, dtype=torch.float64) * 3)
        found[f"MultivariateNormal {name}"] = (p, q, points)
    return found


def _matrices(torch: Any, d: Any) -> dict[str, tuple[Any, Any, Any]]:
    square = _t(torch, [[2.0, 0.3], [0.3, 1.0]])
    correlated = _t(torch, [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]])
    df = _t(torch, [3.5, 6.0])
    return {
        "LKJCholesky": (
            d.LKJCholesky(3, _t(torch, [0.5, 4.0])),
            d.LKJCholesky(3, _t(torch, 1.0)),
            correlated,
        ),
        "Wishart": (d.Wishart(df, square), d.Wishart(df + 1, scale_tril=square.tril()), square),
    }
