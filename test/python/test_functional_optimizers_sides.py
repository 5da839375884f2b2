"""Optimizers as functions of lists (`optim.adam.adam` and its kind) beside PyTorch's."""

import importlib
import inspect
import math

import flambeau
import pytest
from oracle import pytorch
from sides import differences, plain, raised

ADAM = {"beta1": 0.8, "beta2": 0.95, "lr": 0.1, "weight_decay": 0.01, "eps": 1e-8}
ADAMS = ADAM | {"amsgrad": False, "maximize": False}
SGD = {"weight_decay": 0.1, "lr": 0.1, "nesterov": False, "maximize": False}
# Function -> (lists of states with their first value; step is the last), hyperparameters, further options.
STEP = math.nan  # stands for a state of one number, 0
WAYS = {
    "adam": ((0, 0, 0, STEP), ADAMS, [{}, {"decoupled_weight_decay": True}, {"amsgrad": True}]),
    "adamw": ((0, 0, 0, STEP), ADAMS, [{}, {"amsgrad": True, "maximize": True}]),
    "sgd": ((None,), SGD | {"momentum": 0.9, "dampening": 0.5}, [{}, {"momentum": 0.0}, {"maximize": True}]),
    "adagrad": (
        (0.5, STEP),
        {"lr": 0.1, "weight_decay": 0.1, "lr_decay": 0.3, "eps": 1e-9, "maximize": False},
        [{}, {"maximize": True}],
    ),
    "adadelta": (
        (0, 0, STEP),
        {"lr": 1.0, "rho": 0.9, "eps": 1e-3, "weight_decay": 0.1, "maximize": False},
        [{}, {"maximize": True}],
    ),
    "rmsprop": (
        (0, 0, 0, STEP),
        {"lr": 0.1, "alpha": 0.9, "eps": 1e-8, "weight_decay": 0.1, "momentum": 0.0, "centered": False},
        [{}, {"momentum": 0.5, "centered": True, "maximize": True}],
    ),
    "rprop": (
        (0, 0.1, STEP),
        {"step_size_min": 1e-6, "step_size_max": 50.0, "etaminus": 0.5, "etaplus": 1.2},
        [{}, {"maximize": True}],
    ),
    "asgd": (
        (0, 1.0j, 0.1j, STEP),
        {"lambd": 0.1, "lr": 0.1, "t0": 1.0, "alpha": 0.75, "weight_decay": 0.1},
        [{}, {"maximize": True}],
    ),
    "adamax": ((0, 0, STEP), ADAM, [{}, {"maximize": True}]),
    "nadam": (
        (0, 0, 1.0j, STEP),
        ADAM | {"momentum_decay": 0.004},
        [{}, {"decoupled_weight_decay": True, "maximize": True}],
    ),
    "radam": ((0, 0, STEP), ADAM, [{}, {"decoupled_weight_decay": True}, {"maximize": True}]),
}
CASES = [(name, more) for name, (_, _, further) in WAYS.items() for more in further]


def function(torch, name):
    return getattr(importlib.import_module(f"{torch.__name__}.optim.{name}"), name)


def state(torch, p, first):
    """A state like the parameter, or of one number where `first` is complex, or none."""
    if first is None:
        return None
    if isinstance(first, complex) or math.isnan(first):
        return torch.tensor(first.imag if isinstance(first, complex) else 0.0, dtype=torch.float64)
    return torch.full_like(p, first)


def assert_close(found, expected):
    """PyTorch computes steps of ASGD from numbers of float32, so 6 digits are compared."""
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert_close(ours, theirs)
    else:
        assert found == expected or found == pytest.approx(expected, rel=1e-6)


def parameters(torch):
    """Parameters with their gradients at a step: a matrix, its column, a number, nothing, NaN and inf."""
    wide = torch.arange(12, dtype=torch.float64).reshape(3, 4) / 7 - 1
    odd = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    return [wide, wide.clone().t()[1], torch.tensor(0.5).double(), torch.ones(0, 2).double(), odd]


def gradients(torch, params, step):
    out = [(p * (step + 1)).sin() + 0.1 * step for p in params[:-1]]
    return [*out, torch.tensor([math.nan, math.inf, -math.inf], dtype=torch.float64)]


def trained(torch, name, more, steps=4):
    firsts, given, _ = WAYS[name]
    params = parameters(torch)
    lists = [[state(torch, p, first) for p in params] for first in firsts]
    for step in range(steps):
        with torch.no_grad():
            function(torch, name)(params, gradients(torch, params, step), *lists, **{**given, **more})
    return plain([params, *lists])


@pytest.mark.parametrize("name", WAYS)
def test_parameters_of_functions(name):
    ours, theirs = (inspect.signature(function(m, name)).parameters.values() for m in (flambeau, pytorch()))
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]


@pytest.mark.parametrize("lists", [None, False, True])
@pytest.mark.parametrize(("name", "more"), CASES)
def test_steps(name, more, lists):
    assert_close(*(trained(m, name, {**more, "foreach": lists}) for m in (flambeau, pytorch())))


def complex_steps(torch, name):
    firsts, given, _ = WAYS[name]
    params = [torch.tensor([1 + 2j, -0.5j], dtype=torch.complex128)]
    lists = [[state(torch, p, first) for p in params] for first in firsts]
    for step in range(3):
        grads = [torch.tensor([0.5 - 1j, 1 + step * 1j], dtype=torch.complex128)]
        more = {} if name == "sgd" else {"has_complex": True}
        function(torch, name)(params, grads, *lists, **given, **more)
    return plain(torch.view_as_real(params[0]))


@pytest.mark.parametrize("name", WAYS)
def test_complex_parameters(name):
    assert_close(complex_steps(flambeau, name), complex_steps(pytorch(), name))


def differentiated(torch):
    """The gradient of a loss after a step by the learning rate of what made the parameter."""
    start = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    moved, grads = [start * 1], [start.sin()]
    states = [
        [torch.zeros_like(start)],
        [torch.zeros_like(start)],
        [],
        [torch.zeros((), dtype=torch.float64)],
    ]
    function(torch, "adam")(moved, grads, *states, differentiable=True, **ADAMS)
    return plain(torch.autograd.grad(moved[0].square().sum(), start))


def test_gradients_flow_through_a_step():
    assert differentiated(flambeau) == differentiated(pytorch())


def scaled(torch, found):
    params, grads = [torch.tensor([1.0, 2.0])], [torch.tensor([4.0, -8.0])]
    states = [[torch.zeros(2)], [torch.zeros(2)], [], [torch.tensor(0.0)]]
    scale = {"grad_scale": torch.tensor(4.0), "found_inf": torch.tensor(found)}
    function(torch, "adam")(params, grads, *states, fused=True, **scale, **ADAMS)
    return [[round(v, 5) for v in t.tolist()] for t in (params[0], states[0][0], states[1][0])] + [
        states[-1][0].item()
    ]


@pytest.mark.parametrize("found", [0.0, 1.0])
def test_a_scale_of_gradients(found):
    assert scaled(flambeau, found) == scaled(pytorch(), found)


def refused(torch):
    one, step = torch.ones(2), torch.tensor(0.0)
    states = lambda: [[torch.zeros(2)], [torch.zeros(2)], []]  # noqa: E731
    adam, sgd = function(torch, "adam"), function(torch, "sgd")
    leaf = torch.ones(2, requires_grad=True)
    scale = {"grad_scale": torch.tensor(2.0), "found_inf": torch.tensor(0.0)}
    return [
        raised("state_steps", adam, [one], [one], *states(), [0], **ADAMS),
        raised(
            "eps", adam, [one], [one], *states(), [step], **{k: v for k, v in ADAMS.items() if k != "eps"}
        ),
        raised("unexpected keyword", adam, [one], [one], *states(), [step], **ADAMS, rho=1),
        raised("", adam, [one], [], *states(), [step], **ADAMS),
        raised("", adam, [one], [one], [], [], [], [step], **ADAMS),
        raised("", adam, [one], [one], *states(), [step], **ADAMS, capturable=True),
        raised("", adam, [one], [one], *states(), [step], **ADAMS, fused=False, foreach=False, **scale),
        raised("leaf", sgd, [leaf], [one], [None], **SGD, momentum=0.0, dampening=0.0),
        raised("leaf", adam, [leaf], [one], *states(), [step], **ADAMS),
        raised("", adam, [], [], [], [], [], [], **ADAMS),
        leaf.tolist(),
    ]


def test_errors():
    found, expected = refused(flambeau), refused(pytorch())
    assert found == expected, differences(plain(found), plain(expected))


def test_names_of_the_functions():
    torch = pytorch()
    names = [name for name in WAYS if hasattr(torch.optim._functional, name)]
    ours = importlib.import_module("flambeau.optim._functional")
    assert names and all(getattr(ours, name) is function(flambeau, name) for name in names)
