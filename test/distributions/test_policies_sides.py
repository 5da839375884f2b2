"""Distributions: draws of a seed, densities, moments, divergences and errors, as in PyTorch."""

import importlib
import re

import flambeau as fb
import pytest
from oracle import pytorch
from sides import Scenarios, raised

scenario = Scenarios()


def kinds(torch):
    """Name -> (distribution, another one, values)."""
    d = importlib.import_module(f"{torch.__name__}.distributions")
    t = torch.tensor
    loc, scale = t([0.3, -1.0, 2.0]), t([[0.5], [2.0]])
    other = t([1.0, 0.0, 2.5])
    rows = t([[0.1, 0.7, 0.2], [0.5, 0.25, 0.25]])
    square = t([[2.0, 0.3], [0.3, 1.0]])
    reals, units = t([0.1, -2.0, 3.0]), t([0.2, 0.9, 0.5])
    found = {
        name: (getattr(d, name)(loc, scale), getattr(d, name)(other, 1.5), reals)
        for name in ("Normal", "Laplace", "Cauchy", "Gumbel")
    }
    found |= {
        "LogNormal": (d.LogNormal(loc, scale), d.LogNormal(0.0, 1.0), units + 1),
        "Uniform": (d.Uniform(loc, loc + 2), d.Uniform(-3.0, 9.0), loc + units),
        "Exponential": (d.Exponential(scale), d.Exponential(3.0), units),
        "Bernoulli": (d.Bernoulli(units), d.Bernoulli(logits=reals), t([0.0, 1.0, 1.0])),
        "Bernoulli logits": (d.Bernoulli(logits=reals), d.Bernoulli(0.25), t([1.0, 0.0, 1.0])),
        "Geometric": (d.Geometric(units), d.Geometric(logits=reals), t([0.0, 2.0, 5.0])),
        "Poisson": (d.Poisson(units * 5), d.Poisson(2.0), t([0.0, 3.0, 7.0])),
        "Categorical": (d.Categorical(rows), d.Categorical(logits=reals), t([2, 0])),
        "Categorical logits": (d.Categorical(logits=rows), d.Categorical(rows), t([[1, 0], [2, 2], [0, 0]])),
        "OneHotCategorical": (
            d.OneHotCategorical(rows),
            d.OneHotCategorical(logits=reals),
            t([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
        ),
        "Independent": (
            d.Independent(d.Normal(loc.expand(2, 3), scale), 1),
            d.Independent(d.Normal(other, t(1.0)).expand((2, 3)), 1),
            reals.expand(2, 3),
        ),
    }
    for name in ("covariance_matrix", "precision_matrix", "scale_tril"):
        matrix = square if name != "scale_tril" else torch.linalg.cholesky(square)
        p = d.MultivariateNormal(loc[:2], **{name: matrix})
        q = d.MultivariateNormal(torch.zeros(4, 2), torch.eye(2) * 3)
        found[f"MultivariateNormal {name}"] = (p, q, t([[0.5, 1.0], [0.0, -1.0]]))
    return found


def rounded(x):
    """PyTorch's float32 and ours differ in the last digits."""
    return [[float(f"{v:.4g}") if v == v else "nan" for v in x.double().flatten().tolist()], list(x.shape)]


def attempt(call, *args):
    try:
        return rounded(call(*args))
    except (NotImplementedError, ValueError) as error:
        return type(error).__name__


def _facts(name):
    def facts(torch):
        d = importlib.import_module(f"{torch.__name__}.distributions")
        p, q, values = kinds(torch)[name]
        torch.manual_seed(3)
        found = [attempt(p.sample), attempt(p.sample, (4, 2)), attempt(p.rsample, (3,)), p.has_rsample]
        found += [attempt(call, values) for call in (p.log_prob, p.cdf)]
        found += [attempt(p.icdf, torch.tensor(0.3)), attempt(p.entropy), attempt(p.perplexity)]
        found += [attempt(getattr, p, what) for what in ("mean", "variance", "stddev", "mode")]
        found += [attempt(d.kl_divergence, p, q), attempt(p.enumerate_support)]
        larger = p.expand((5, *p.batch_shape))
        found += [list(larger.batch_shape), list(larger.event_shape), attempt(larger.log_prob, values)]
        text = "" if name in ("LogNormal", "OneHotCategorical") else repr(p)  # theirs leave the arguments out
        return [*found, text.replace("flambeau", "torch"), str(p.support).replace("flambeau", "torch")]

    facts.__name__ = re.sub(r"\W", "_", name)
    return facts


for _name in kinds(fb):
    scenario(_facts(_name))


@scenario
def gradients_of_draws_and_divergences(torch):
    d = importlib.import_module(f"{torch.__name__}.distributions")
    torch.manual_seed(0)
    found = []
    for kind in (d.Normal, d.Laplace, d.Gumbel, d.LogNormal, d.Cauchy):
        loc, scale = torch.zeros(3, requires_grad=True), torch.ones(3, requires_grad=True)
        p = kind(loc, scale)
        p.rsample((2,)).sin().sum().backward()
        p.log_prob(torch.tensor([0.3, 0.7, 1.5])).sum().backward()
        found += [rounded(loc.grad), rounded(scale.grad)]
    loc = torch.zeros(2, requires_grad=True)
    d.kl_divergence(d.Normal(loc, 1.0), d.Normal(1.0, 2.0)).sum().backward()
    root = torch.eye(2).mul(2).requires_grad_()
    d.MultivariateNormal(loc, scale_tril=root).rsample().sum().backward()
    return [*found, rounded(loc.grad), rounded(root.grad)]


@scenario
def policy_gradient(torch):
    d = importlib.import_module(f"{torch.__name__}.distributions")
    torch.manual_seed(0)
    scores = torch.randn(5, 4, requires_grad=True)
    policy = d.Categorical(logits=scores)
    action = policy.sample()
    (-(policy.log_prob(action) * torch.arange(5.0)).mean() - 0.01 * policy.entropy().mean()).backward()
    return [action, rounded(scores.grad)]


@scenario
def mistakes(torch):
    d = importlib.import_module(f"{torch.__name__}.distributions")
    t, within = torch.tensor, "to be within the support"
    return [
        raised("satisfy the constraint", d.Normal, 0.0, -1.0),
        raised("to satisfy the constraint", d.Categorical, t([-0.5, 1.5])),
        raised("Either `probs` or `logits`", d.Categorical),
        raised("Either `probs` or `logits`", d.Bernoulli, 0.5, 0.5),
        raised("at least one-dimensional", d.Categorical, t(1.0)),
        raised("constraint", d.Uniform, 1.0, 0.0),
        raised(within, d.Uniform(0.0, 1.0).log_prob, t(2.0)),
        raised(within, d.Poisson(1.0).log_prob, t(0.5)),
        raised(within, d.Categorical(torch.ones(3)).log_prob, t(3)),
        raised("broadcast", d.Normal(torch.zeros(2), 1.0).log_prob, torch.zeros(3)),
        raised("must be a Tensor", d.Normal(0.0, 1.0).log_prob, 1),
        raised("", d.Categorical(torch.ones(2)).rsample)[0],
        raised("", d.kl_divergence, d.Normal(0.0, 1.0), d.Categorical(torch.ones(2)))[0],
        raised("Exactly one of", d.MultivariateNormal, torch.zeros(2)),
        raised("reinterpreted_batch_ndims", d.Independent, d.Normal(0.0, 1.0), 1),
        rounded(d.Normal(0.0, -1.0, validate_args=False).log_prob(t(1.0)).nan_to_num(7.0)),
    ]


test_as_in_pytorch = scenario.test()


def test_a_rule_for_kinds_of_ones_own():
    class Wide(fb.distributions.Normal):
        pass

    p = Wide(0.0, 2.0)
    assert fb.distributions.kl_divergence(p, p).item() == 0

    @fb.distributions.register_kl(Wide, fb.distributions.Normal)
    def rule(p, q):
        return fb.tensor(5.0)

    assert fb.distributions.kl_divergence(p, p).item() == 5
    assert fb.distributions.kl_divergence(fb.distributions.Normal(0.0, 2.0), p).item() == 0
    for torch in (fb, pytorch()):  # any class will do
        torch.distributions.register_kl(int, float)
    with pytest.raises(TypeError, match="expected a class of distributions"):
        fb.distributions.register_kl(3, Wide)
