"""Schedules of the rate and, against it, of the momentum: cycles, and the one-cycle policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.optim._arguments import described
from flambeau.optim._schedule import LRScheduler, set_group_value
from flambeau.optim.optimizer import Optimizer

_MODES = ("triangular", "triangular2", "exp_range")


def per_group(who: str, name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each group, from one for all or a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"{who}: expected {count} values for {name}, got {len(value)}")
    return list(value)


def _momentum_name(who: str, optimizer: Optimizer) -> str:
    """Which hyperparameter is the momentum: the first of `betas`, or `momentum`."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            f"{who}: expected an optimizer with momentum or betas for cycle_momentum=True, got "
            f"{type(optimizer).__name__}"
        )
    return "betas" if "betas" in optimizer.defaults else "momentum"


def _set_momentum(group: dict[str, Any], name: str, value: float) -> None:
    if name == "betas":
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _check_optimizer(name: str, optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        kind = type(optimizer).__name__
        raise TypeError(f"{name}: expected an Optimizer, got {kind}, which is not an Optimizer")


@described
class CyclicLR(LRScheduler):
    """Raises and lowers the rate between two bounds at every step, and the momentum in the other direction.

    Args:
        {optimizer}
        base_lr: the lower bound of the rate; a number, or a list of one number per group.
        max_lr: the upper bound of the rate in the first cycle; a number, or a list of one number per group.
        step_size_up: the number of steps in which the rate rises.
        step_size_down: the number of steps in which it falls. None means `step_size_up`.
        mode: the factor of the amplitude: "triangular" means 1, "triangular2" halves it after each cycle,
            "exp_range" means ``gamma ** step``.
        gamma: the base of "exp_range".
        scale_fn: a function that returns the factor of the amplitude; it replaces `mode`.
        scale_mode: the argument of `scale_fn`: "cycle", counted from 1, or "iterations", the step.
        cycle_momentum: whether to change the momentum (or beta1) too.
        base_momentum: the lower bound of the momentum, reached at the highest rate.
        max_momentum: the upper bound of the momentum, reached at the lowest rate.
        last_epoch: the step to resume from. -1 starts the schedule.
    Raises: ValueError for an unknown mode, a wrong number of rates, or `cycle_momentum` with an optimizer
        without momentum; TypeError if `optimizer` is not an `Optimizer`.
    See also: `OneCycleLR`
    Source: Smith 2017, "Cyclical Learning Rates for Training Neural Networks", section 3.

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0, momentum=0.9)
        >>> scheduler = flambeau.optim.lr_scheduler.CyclicLR(optimizer, 0.5, 1.5, step_size_up=2)
        >>> rates = []
        >>> for _ in range(5):
        ...     rates += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [0.5, 1.0, 1.5, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer("CyclicLR", optimizer)
        if mode not in _MODES and scale_fn is None:
            raise ValueError(f"CyclicLR: expected a mode of {_MODES} or a scale_fn, got {mode!r}")
        if last_epoch == -1:
            for group, rate in zip(
                optimizer.param_groups,
                per_group(type(self).__name__, "base_lr", optimizer, base_lr),
                strict=True,
            ):
                set_group_value(group, "lr", rate)
        self.max_lrs = per_group(type(self).__name__, "max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up) + float(down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = per_group(type(self).__name__, "base_lr", optimizer, base_lr)

    def _begin_momentum(self, optimizer: Optimizer, low: Any, high: Any, last_epoch: int) -> None:
        self._momentum = _momentum_name(type(self).__name__, optimizer)
        self.base_momentums = per_group(type(self).__name__, "base_momentum", optimizer, low)
        self.max_momentums = per_group(type(self).__name__, "max_momentum", optimizer, high)
        for group, top, bottom in zip(
            optimizer.param_groups, self.max_momentums, self.base_momentums, strict=True
        ):
            if last_epoch == -1:
                _set_momentum(group, self._momentum, top)
            group["max_momentum"], group["base_momentum"] = top, bottom

    def scale_fn(self, x: float) -> float:
        """Return the factor of the amplitude."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return self.gamma**x
        return 1.0 if self.mode == "triangular" else 1 / 2.0 ** (x - 1)

    def get_lr(self) -> list[Any]:
        """Return the rate of each group, and set the momentum."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        place = 1.0 + self.last_epoch / self.total_size - cycle
        up = place <= self.step_ratio
        height = place / self.step_ratio if up else (place - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            rows = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in rows:
                _set_momentum(group, self._momentum, high - (high - low) * height * scale)
        return [
            low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer and a function that was given."""
        state = super().state_dict()
        custom = state.pop("_scale_fn_custom")
        given = custom is not None and not isinstance(custom, type(_set_momentum))
        return {**state, "_scale_fn_custom": dict(vars(custom)) if given else None}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        rest = dict(state_dict)
        values = rest.pop("_scale_fn_custom")
        super().load_state_dict(rest)
        if values is not None and self._scale_fn_custom is not None:
            vars(self._scale_fn_custom).update(values)


@described
class OneCycleLR(LRScheduler):
    """Raises the rate to a maximum and lowers it far below its first value, once over the whole training.

    The momentum changes in the opposite direction. Call ``step()`` after each batch.

    Args:
        {optimizer}
        max_lr: the highest rate; a number, or a list of one number per group.
        total_steps: the number of steps in all. None means ``epochs * steps_per_epoch``.
        epochs: the number of epochs; needed without `total_steps`.
        steps_per_epoch: the number of steps in an epoch; needed without `total_steps`.
        pct_start: the share of the steps in which the rate rises, a float in [0, 1].
        anneal_strategy: the curve between two rates: "cos" or "linear".
        cycle_momentum: whether to change the momentum (or beta1) too.
        base_momentum: the lower bound of the momentum, reached at the highest rate; a number or one per
            group.
        max_momentum: the upper bound of the momentum, reached at the lowest rate; a number or one per group.
        div_factor: the first rate is ``max_lr / div_factor``.
        final_div_factor: the last rate is the first rate divided by this.
        three_phase: whether the rate falls in two phases: back to the first rate in as many steps as it rose,
            then to the last rate.
        last_epoch: the step to resume from. -1 starts the schedule.
    Raises: ValueError for an argument out of its range, or without a number of steps; TypeError if
        `optimizer` is not an `Optimizer`.
    See also: `CyclicLR`
    Source: Smith & Topin 2018, "Super-Convergence: Very Fast Training of Neural Networks Using Large Learning
        Rates".

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0, momentum=0.9)
        >>> scheduler = flambeau.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=5)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> [round(lr, 4) for lr in rates]
        [0.04, 0.9505, 0.6113, 0.1883]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer("OneCycleLR", optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"OneCycleLR: expected pct_start from 0 to 1, got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"OneCycleLR: expected 'cos' or 'linear' as anneal_strategy, got {anneal_strategy!r}"
            )
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if last_epoch == -1:
            for group, top in zip(
                optimizer.param_groups,
                per_group(type(self).__name__, "max_lr", optimizer, max_lr),
                strict=True,
            ):
                group["initial_lr"], group["max_lr"] = top / div_factor, top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _begin_momentum(self, optimizer: Optimizer, low: Any, high: Any, last_epoch: int) -> None:
        self._momentum = _momentum_name(type(self).__name__, optimizer)
        lows, highs = (per_group(type(self).__name__, "momentum", optimizer, v) for v in (low, high))
        if last_epoch == -1:
            for group, bottom, top in zip(optimizer.param_groups, lows, highs, strict=True):
                _set_momentum(group, self._momentum, top)
                group["max_momentum"], group["base_momentum"] = top, bottom

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[Any]:
        """Return the rate of each group, and set the momentum."""
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: expected at most {self.total_steps} steps, got step {step}")
        begin = 0.0
        for place, phase in enumerate(self._schedule_phases):
            if step <= phase["end_step"] or place == len(self._schedule_phases) - 1:
                share = (step - begin) / (phase["end_step"] - begin)
                break
            begin = phase["end_step"]
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self._momentum, self._between(*ends, share))
        return [self._between(group[phase["start_lr"]], group[phase["end_lr"]], share) for group in groups]


def _total_steps(total: int | None, epochs: int | None, per_epoch: int | None) -> int:
    if total is not None:
        given = {"total_steps": total}
    elif epochs is not None and per_epoch is not None:
        given = {"epochs": epochs, "steps_per_epoch": per_epoch}
    else:
        raise ValueError(
            f"OneCycleLR: expected total_steps, or epochs and steps_per_epoch, got epochs={epochs}, "
            f"steps_per_epoch={per_epoch}"
        )
    for name, value in given.items():
        if value <= 0 or not isinstance(value, int):
            raise ValueError(f"OneCycleLR: Expected positive integer {name}, but got {value}")
    return math.prod(given.values())


def _phases(total: int, share: float, three: bool) -> list[dict[str, Any]]:
    names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
    up = ("initial_lr", "max_lr", "max_momentum", "base_momentum")
    down = ("max_lr", "initial_lr" if three else "min_lr", "base_momentum", "max_momentum")
    rows = [(float(share * total) - 1, *up)]
    if three:
        rows += [
            (float(2 * share * total) - 2, *down),
            (total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
        ]
    else:
        rows.append((total - 1, *down))
    return [dict(zip(names, row, strict=True)) for row in rows]
