"""Schedulers made of schedulers, averaged models: rates, states, resumption and warnings as in PyTorch."""

import copy
import warnings

import flambeau
import pytest
from oracle import pytorch
from sides import differences, plain, raised

# What each side keeps for itself in a scheduler's state.
OWN = {"_is_initial", "_get_lr_called_within_step", "use_beta1", "_momentum", "_scale_fn_custom", "optimizer"}
CASES = {
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 3), s.ExponentialLR(o, 0.9)]),
    "chained with optimizer": lambda s, o: s.ChainedScheduler([s.LinearLR(o, 0.5), s.StepLR(o, 2)], o),
    "two": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=4), s.CosineAnnealingLR(o, 6)], [4]
    ),
    "three": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9), s.CosineAnnealingWarmRestarts(o, 3)], [2, 7]
    ),
    "without closed form": lambda s, o: s.SequentialLR(
        o, [s.PolynomialLR(o, 3, 2), s.MultiplicativeLR(o, lambda epoch: 0.9)], [3]
    ),
    "a sequence in a chain": lambda s, o: s.ChainedScheduler(
        [s.SequentialLR(o, [s.LinearLR(o, 0.1), s.ExponentialLR(o, 0.9)], [2]), s.StepLR(o, 3)]
    ),
}


def optimizer_of(torch):
    weight, bias = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
    return torch.optim.SGD([{"params": [weight], "lr": 0.1}, {"params": [bias], "lr": 0.5}])


def public(state):
    """A state without the entries that are either side's own."""
    if isinstance(state, dict):
        return {str(k): public(v) for k, v in state.items() if k not in OWN and not callable(v)}
    return [public(v) for v in state] if isinstance(state, list | tuple) else state


def steps(optimizer, scheduler, count):
    rates = []
    for _ in range(count):
        optimizer.step()
        scheduler.step()
        rates.append([group["lr"] for group in optimizer.param_groups])
    return rates


def resumed(torch, make):
    """Rates of 6 epochs, the states then, 6 more epochs, and those 6 after states were loaded."""
    schedulers = torch.optim.lr_scheduler
    optimizer = optimizer_of(torch)
    scheduler = make(schedulers, optimizer)
    first = steps(optimizer, scheduler, 6)
    states = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
    then = steps(optimizer, scheduler, 6)
    optimizer = optimizer_of(torch)
    scheduler = make(schedulers, optimizer)
    optimizer.load_state_dict(states[0])
    scheduler.load_state_dict(states[1])
    assert steps(optimizer, scheduler, 6) == then
    return plain([first, then, public(states[1]), scheduler.get_last_lr()])


@pytest.mark.parametrize("name", CASES)
def test_rates_and_states(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = resumed(flambeau, CASES[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own
        expected = resumed(pytorch(), CASES[name])
    assert found == expected, differences(found, expected)


def test_an_epoch_that_is_given_warns():
    optimizer = optimizer_of(flambeau)
    scheduler = flambeau.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    with pytest.warns(UserWarning, match="epoch is deprecated"):
        scheduler.step(3)
    assert scheduler.get_last_lr() == [0.0125, 0.0625]


def averaged(torch, options):
    """State and output of an averaged model with batch normalization."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).double()
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.arange(p.numel()).reshape(p.shape) + i)
    average = torch.optim.swa_utils.AveragedModel(net, **options(torch.optim.swa_utils))
    x = torch.arange(12.0, dtype=torch.float64).reshape(6, 2).sin()
    for i in range(3):
        net(x + i)
        with torch.no_grad():
            for p in net.parameters():
                p.add_(i + 1)
        average.update_parameters(net)
    torch.optim.swa_utils.update_bn([x, x * 2], average)
    return plain([list(average.state_dict()), list(average.state_dict().values()), average(x)])


AVERAGES = {
    "mean": lambda u: {},
    "several at once": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.9)},
    "exponential": lambda u: {"avg_fn": u.get_ema_avg_fn(0.8)},
    "buffers": lambda u: {"use_buffers": True},
    "own": lambda u: {"avg_fn": lambda mean, value, count: mean + (value - mean) / (count + 2)},
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averages(name):
    found, expected = (averaged(m, AVERAGES[name]) for m in (flambeau, pytorch()))
    assert found == expected, differences(found, expected)


def refused(torch):
    s, u, o = torch.optim.lr_scheduler, torch.optim.swa_utils, optimizer_of(torch)
    other = s.ConstantLR(optimizer_of(torch))
    return [
        raised("", make)
        for make in (
            lambda: s.SequentialLR(o, [s.ConstantLR(o)], [1]),
            lambda: s.SequentialLR(o, [], []),
            lambda: s.SequentialLR(o, [s.ConstantLR(o), other], [1]),
            lambda: s.ChainedScheduler([]),
            lambda: s.ChainedScheduler([s.ConstantLR(o), other]),
            lambda: u.SWALR(o, 0.1, -1),
            lambda: u.SWALR(o, 0.1, 1.5),
            lambda: u.SWALR(o, [0.1]),
            lambda: u.SWALR(o, 0.1, anneal_strategy="x"),
            lambda: u.get_ema_avg_fn(2.0),
            lambda: u.AveragedModel(torch.nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max),
        )
    ]


def test_errors():
    assert refused(flambeau) == refused(pytorch())
