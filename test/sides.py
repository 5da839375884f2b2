"""Scenarios that run alike under flambeau and PyTorch, and must be observed alike.

A scenario is a function of the framework that returns plain values: numbers, strings, lists. What it
raises counts as well: `raised` gives the exception's type and whether the phrase stands in its text.
"""

import math
import warnings

import flambeau
import pytest
from oracle import pytorch


def raised(phrase, call, *args, **kwargs):
    """The type of what the call raises and whether `phrase` stands in it."""
    try:
        call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, phrase.lower() in str(error).lower() or str(error)
    return "nothing"


def warned(phrase, call, *args, **kwargs):
    """Whether the call warns with this phrase, and the category."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args, **kwargs)
    return [w.category.__name__ for w in caught if phrase.lower() in str(w.message).lower()]


def leaf(torch, *values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def doubling(torch):
    """A custom Function that doubles its argument in place."""

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

        @staticmethod
        def jvp(ctx, tangent):
            return tangent.mul_(2)

    return Double


def short_name(node):
    """PyTorch qualifies the names of the nodes that it has not generated."""
    return node.name().rpartition("::")[2]


def plain(value):
    """Tensors as lists, numbers rounded to 10 digits, and zero below 1e-12."""
    if hasattr(value, "tolist"):
        value = value.detach().tolist()
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, float) and not math.isnan(value):
        return float(f"{value:.10g}") if abs(value) > 1e-12 else 0.0
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    return "nan" if isinstance(value, float) else value


def differences(found, expected):
    """The entries that differ: flambeau's, then PyTorch's."""
    if not (isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected)):
        return f"flambeau {found!r}, PyTorch {expected!r}"
    pairs = enumerate(zip(found, expected, strict=True))
    return "; ".join(f"[{i}] {differences(a, b)}" for i, (a, b) in pairs if a != b)


def observed(scenario, torch):
    """What PyTorch does. Capturing a graph (torch.cond) would stop its distributions from checking."""
    checks = torch.distributions.Distribution._validate_args
    try:
        return scenario(torch)
    finally:
        torch.distributions.Distribution.set_default_validate_args(checks)


class Scenarios:
    """Collects scenarios; `test` is the pytest function that runs each on both sides."""

    def __init__(self):
        self.all = []

    def __call__(self, function):
        self.all.append(function)
        return function

    def test(self):
        @pytest.mark.parametrize("scenario", self.all, ids=lambda s: s.__name__)
        def test_as_in_pytorch(scenario):
            torch = pytorch()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = plain(observed(scenario, torch))
                found = plain(scenario(flambeau))
            assert found == expected, differences(found, expected)

        return test_as_in_pytorch
