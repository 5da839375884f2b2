"""Schedules and averaged models against PyTorch's, epoch by epoch."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

torch = pytorch()
EPOCHS = 14

CASES: list[tuple[str, dict[str, Any]]] = [
    ("LambdaLR", {"lr_lambda": lambda e: 0.9**e}),
    ("LambdaLR", {"lr_lambda": [lambda e: 0.9**e, lambda e: 1 / (e + 1)]}),
    ("MultiplicativeLR", {"lr_lambda": lambda e: 0.95 if e % 2 else 1.01}),
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [2, 5, 5, 9], "gamma": 0.3}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 4}),
    ("LinearLR", {"start_factor": 0.25, "end_factor": 0.75, "total_iters": 6}),
    ("ExponentialLR", {"gamma": 0.8}),
    ("PolynomialLR", {"total_iters": 8, "power": 1.5}),
    ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.01}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 3}),
    ("CyclicLR", {"base_lr": [0.1, 0.2], "max_lr": 0.5, "step_size_up": 3, "step_size_down": 2,
                  "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 2, "mode": "exp_range", "gamma": 0.9}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 2, "scale_fn": lambda x: 1 / x,
                  "cycle_momentum": False}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 16}),
    ("OneCycleLR", {"max_lr": [0.5, 0.7], "epochs": 4, "steps_per_epoch": 5, "three_phase": True}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20, "anneal_strategy": "linear", "cycle_momentum": False}),
]  # fmt: skip
NAMED = [pytest.param(*case, id=f"{case[0]}-{i}") for i, case in enumerate(CASES)]


def sgd(m: Any, kind: str = "SGD", lr: Any = 0.4) -> Any:
    groups = [{"params": [m.ones(1).requires_grad_()]}, {"params": [m.ones(1).requires_grad_()], "lr": 0.2}]
    return getattr(m.optim, kind)(groups, lr=lr, **({"momentum": 0.9} if kind == "SGD" else {}))


def values(optimizer: Any) -> list[Any]:
    """Rate and momentum of each group."""
    return [(float(g["lr"]), g.get("momentum"), g.get("betas")) for g in optimizer.param_groups]


def run(m: Any, name: str, options: dict[str, Any], kind: str) -> list[Any]:
    optimizer = sgd(m, kind)
    scheduler = getattr(m.optim.lr_scheduler, name)(optimizer, **options)
    history = [values(optimizer)]
    for epoch in range(EPOCHS):
        optimizer.step()
        scheduler.step()
        if epoch == 6:  # a rate that is set by hand is built upon, or overruled, in the same way
            optimizer.param_groups[1]["lr"] *= 0.5
        history.append([*values(optimizer), *scheduler.get_last_lr()])
    return history


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert str(np.array(flat(a)).round(9)) == str(np.array(flat(b)).round(9))


def flat(value: Any) -> list[float]:
    if isinstance(value, list | tuple):
        return [x for v in value for x in flat(v)]
    return [-1.0 if value is None else float(value)]


@pytest.mark.parametrize(("name", "options"), NAMED)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_rates(name: str, options: dict[str, Any], kind: str) -> None:
    assert_same(run(fb, name, options, kind), run(torch, name, options, kind))


@pytest.mark.parametrize(("name", "options"), NAMED)
def test_a_saved_schedule_continues(name: str, options: dict[str, Any]) -> None:
    def resumed(m: Any) -> list[Any]:
        first, second = sgd(m), sgd(m)
        make = getattr(m.optim.lr_scheduler, name)
        scheduler, other = make(first, **options), make(second, **options)
        for _ in range(4):
            first.step()
            scheduler.step()
        other.load_state_dict(copy.deepcopy(scheduler.state_dict()))
        second.load_state_dict(first.state_dict())
        out = []
        for _ in range(4):
            second.step()
            other.step()
            out.append(values(second))
        assert other.last_epoch == 8
        return out

    assert_same(resumed(fb), resumed(torch))


@pytest.mark.parametrize(("name", "options"), NAMED)
@pytest.mark.parametrize("epoch", [1, 3, 4, 5])
def test_starting_at_a_later_epoch(name: str, options: dict[str, Any], epoch: int) -> None:
    def later(m: Any) -> list[Any]:
        optimizer = sgd(m)
        getattr(m.optim.lr_scheduler, name)(optimizer, **options)
        scheduler = getattr(m.optim.lr_scheduler, name)(optimizer, **options, last_epoch=epoch)
        out = [values(optimizer)]
        for _ in range(3):
            optimizer.step()
            scheduler.step()
            out.append(values(optimizer))
        return out

    assert_same(later(fb), later(torch))


@pytest.mark.parametrize("name", ["StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "LinearLR"])
def test_stepping_to_an_epoch(name: str) -> None:
    options = next(o for n, o in CASES if n == name)

    def jump(m: Any) -> list[Any]:
        optimizer = sgd(m)
        scheduler = getattr(m.optim.lr_scheduler, name)(optimizer, **options)
        optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = []
            for epoch in (3, 9, 1):
                scheduler.step(epoch)
                out.append(values(optimizer))
        return out

    assert_same(jump(fb), jump(torch))


def test_combined_schedules() -> None:
    def run_both(m: Any) -> list[Any]:
        s = m.optim.lr_scheduler
        out = []
        for combine in ("sequence", "chain"):
            optimizer = sgd(m)
            a, b = s.ConstantLR(optimizer, 0.1, 3), s.ExponentialLR(optimizer, 0.9)
            both = (
                s.SequentialLR(optimizer, [a, b], [4])
                if combine == "sequence"
                else s.ChainedScheduler([a, b])
            )
            for epoch in range(9):
                optimizer.step()
                both.step()
                if epoch == 5:
                    both.load_state_dict(copy.deepcopy(both.state_dict()))
                out.append([*values(optimizer), *both.get_last_lr()])
        return out

    assert_same(run_both(fb), run_both(torch))


@pytest.mark.parametrize(
    "options",
    [{"patience": 1}, {"mode": "max", "factor": 0.5, "patience": 0, "cooldown": 2, "min_lr": [0.05, 0.01]},
     {"threshold_mode": "abs", "threshold": 0.2, "patience": 0}],
)  # fmt: skip
def test_plateaus(options: dict[str, Any]) -> None:
    def reduced(m: Any) -> list[Any]:
        optimizer = sgd(m)
        scheduler = m.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        out = []
        for metric in (1.0, 0.9, 0.95, 0.96, 0.97, 0.7, float("nan"), 0.8, 0.8, 0.8, 0.8, 0.6):
            scheduler.step(m.tensor(metric))
            out.append([*values(optimizer), scheduler.num_bad_epochs, *scheduler.get_last_lr()])
        scheduler.load_state_dict(scheduler.state_dict())
        return out

    assert_same(reduced(fb), reduced(torch))


def test_a_rate_that_is_a_tensor_keeps_its_identity() -> None:
    rate = fb.tensor(0.5)
    optimizer = fb.optim.Adam([fb.ones(1).requires_grad_()], lr=rate)
    scheduler = fb.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.25


def test_a_schedule_before_the_first_step_warns() -> None:
    scheduler = fb.optim.lr_scheduler.StepLR(sgd(fb), 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()


@pytest.mark.parametrize(
    ("name", "options"),
    [("ConstantLR", {"factor": 2.0}), ("LinearLR", {"start_factor": 0.0}), ("LambdaLR", {"lr_lambda": []}),
     ("OneCycleLR", {"max_lr": 1.0}), ("CyclicLR", {"base_lr": [1.0], "max_lr": 1.0}),
     ("CosineAnnealingWarmRestarts", {"T_0": 0}), ("ReduceLROnPlateau", {"factor": 2.0}),
     ("SequentialLR", {"schedulers": [], "milestones": []}), ("StepLR", {"step_size": 2, "last_epoch": 3})],
)  # fmt: skip
def test_wrong_options_raise_what_pytorch_raises(name: str, options: dict[str, Any]) -> None:
    def error(m: Any) -> type[BaseException]:
        with pytest.raises((ValueError, KeyError, TypeError)) as caught:
            getattr(m.optim.lr_scheduler, name)(sgd(m), **options)
        return caught.type

    assert error(fb) is error(torch)


@pytest.mark.parametrize("average", ["default", "ema", "swa_multi", "ema_multi"])
@pytest.mark.parametrize("use_buffers", [False, True])
def test_averaged_model(average: str, use_buffers: bool) -> None:
    def averaged(m: Any) -> list[Any]:
        u = m.optim.swa_utils
        options = {
            "default": {},
            "ema": {"avg_fn": u.get_ema_avg_fn(0.7)},
            "swa_multi": {} if use_buffers else {"multi_avg_fn": u.get_swa_multi_avg_fn()},
            "ema_multi": {"multi_avg_fn": u.get_ema_multi_avg_fn(0.7)},
        }[average]
        m.manual_seed(0)
        model = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.BatchNorm1d(4)).double()
        mean = u.AveragedModel(model, use_buffers=use_buffers, **options)
        data = [m.tensor(np.random.default_rng(i).standard_normal((6, 3))) for i in range(3)]
        optimizer = m.optim.SGD(model.parameters(), lr=0.1)
        schedule = u.SWALR(optimizer, 0.05, anneal_epochs=2)
        rates = []
        for x in data:
            optimizer.zero_grad()
            (model(x) ** 3).sum().backward()
            optimizer.step()
            schedule.step()
            mean.update_parameters(model)
            rates += schedule.get_last_lr()
        if not use_buffers:
            u.update_bn(data, mean)
        return [rates, *(t.tolist() for t in mean.state_dict().values())]

    for ours, theirs in zip(averaged(fb), averaged(torch), strict=True):
        np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 3])
def test_swalr(strategy: str, epochs: int) -> None:
    options = {"swa_lr": [0.05, 0.01], "anneal_epochs": epochs, "anneal_strategy": strategy}

    def rates(m: Any) -> list[Any]:
        optimizer = sgd(m)
        scheduler = m.optim.swa_utils.SWALR(optimizer, **options)
        out = []
        for _ in range(6):
            optimizer.step()
            scheduler.step()
            out.append(values(optimizer))
        return out

    assert_same(rates(fb), rates(torch))
