"""Every family: draws of a seed, densities, moments, entropies, expansion and texts, as in PyTorch."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
import re

import families
import flambeau as fb
import pytest
from sides import Scenarios

scenario = Scenarios()
MOMENTS = ("mean", "variance", "stddev", "mode")
# PyTorch's Bessel functions are polynomials for float numbers; its generalised Pareto takes no others.
# Its entropy of a multinomial has parts in float32.
DIGITS = {"VonMises": 3, "GeneralizedPareto": 4, "Multinomial": 5}


def rounded(x, digits=7):
    """Seven digits: the last ones of double arithmetic differ between the two."""
    values = [float(f"{v:.{digits}g}") if v == v else "nan" for v in x.double().flatten().tolist()]
    return [[0.0 if v != "nan" and abs(v) < 1e-12 else v for v in values], list(x.shape)]


def attempt(call, *args, digits=7):
    try:
        return rounded(call(*args), digits)
    except (NotImplementedError, ValueError, RuntimeError) as error:
        return type(error).__name__


def _draws(name):
    def draws(torch):
        p, q, _ = families.of(torch)[name]
        torch.manual_seed(3)
        digits = 7 if name == "VonMises" else DIGITS.get(name, 7)
        calls = [(p.sample,), (p.sample, (4, 2)), (p.rsample, (3,)), (q.sample, (5,)), (p.sample, (0,))]
        found = [attempt(*call, digits=digits) for call in calls]
        return [*found, bool(p.has_rsample), bool(p.has_enumerate_support)]

    draws.__name__ = re.sub(r"\W", "_", f"draws_of_{name}")
    return draws


def _formulas(name):
    def formulas(torch):
        d = importlib.import_module(f"{torch.__name__}.distributions")
        p, q, values = families.of(torch)[name]
        # PyTorch's mode of a Kumaraswamy distribution is NaN everywhere.
        moments = [what for what in MOMENTS if (name, what) != ("Kumaraswamy", "mode")]
        share = torch.tensor(0.3, dtype=values.dtype if values.is_floating_point() else torch.float64)
        found = []
        for r in (p, q):
            calls = [(r.log_prob, values), (r.cdf, values), (r.icdf, share), (r.entropy,), (r.perplexity,)]
            calls += [(getattr, r, what) for what in moments]
            calls += [(d.kl_divergence, r, q), (r.enumerate_support,), (r.enumerate_support, False)]
            found += [attempt(*call, digits=DIGITS.get(name, 7)) for call in calls]
        return found

    formulas.__name__ = re.sub(r"\W", "_", f"formulas_of_{name}")
    return formulas


def _shapes_and_texts(name):
    def shapes_and_texts(torch):
        p, _, values = families.of(torch)[name]
        larger = p.expand((5, *p.batch_shape))
        found = [
            list(larger.batch_shape),
            list(larger.event_shape),
            attempt(larger.log_prob, values, digits=DIGITS.get(name, 7)),
        ]
        torch.manual_seed(1)
        found += [attempt(larger.sample, (2,), digits=DIGITS.get(name, 7)), attempt(lambda: larger.mean)]
        if name != "Multinomial":  # PyTorch's forgets its binomial part
            found += [attempt(larger.entropy, digits=DIGITS.get(name, 7))]
        found += [larger.expand((2, *larger.batch_shape))._validate_args, attempt(larger.cdf, values)]
        texts = [repr(p), repr(larger), repr(p.support), repr(p.arg_constraints)]
        static = type(p).support
        for what in ("event_dim", "is_discrete"):
            try:
                found.append(int(getattr(static, what)))
            except (NotImplementedError, AttributeError) as error:
                found.append(type(error).__name__)
        # The number of digits of values in bounds is the printer's affair.
        return found + [
            re.sub(r"tensor\(.*?\)", "tensor", t.replace("flambeau", "torch"), flags=re.S) for t in texts
        ]

    shapes_and_texts.__name__ = re.sub(r"\W", "_", f"shapes_and_texts_of_{name}")
    return shapes_and_texts


for _name in families.of(fb):
    scenario(_draws(_name))
    scenario(_formulas(_name))
    scenario(_shapes_and_texts(_name))

test_as_in_pytorch = scenario.test()


@pytest.mark.parametrize("name", list(families.of(fb)))
def test_copies_are_the_same_distribution(name):
    p, _, values = families.of(fb)[name]
    stream = io.BytesIO()
    fb.save(p, stream)
    stream.seek(0)
    copies = (
        copy.deepcopy(p),
        pickle.loads(pickle.dumps(p)),
        fb.load(stream, weights_only=False),
        p.expand(p.batch_shape),
    )
    text = repr(p)
    for other in copies:
        assert repr(other) == text
        fb.manual_seed(0)
        first = p.sample()
        fb.manual_seed(0)
        assert fb.equal(first, other.sample())
        assert fb.allclose(p.log_prob(values), other.log_prob(values), equal_nan=True)


@pytest.mark.parametrize("name", list(families.of(fb)))
def test_unchecked_arguments_give_no_error(name):
    fb.distributions.Distribution.set_default_validate_args(False)
    try:
        p, _, values = families.of(fb)[name]
        for bad in (values * float("nan"), values - 1e6):
            try:
                p.log_prob(bad)
            except (RuntimeError, IndexError):
                assert name.startswith(("Categorical", "OneHot", "Multinomial", "Wishart")), name
    finally:
        fb.distributions.Distribution.set_default_validate_args(True)
