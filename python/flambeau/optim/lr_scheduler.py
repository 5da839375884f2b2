"""Schedules of the learning rate. Call ``step()`` once per epoch, after the optimizer's step."""

from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from flambeau._loading.lazy import attributes
from flambeau.optim._arguments import described
from flambeau.optim._cycle import CyclicLR, OneCycleLR
from flambeau.optim._plateau import ReduceLROnPlateau
from flambeau.optim._schedule import LRScheduler, MultipliedLR, set_group_value
from flambeau.optim.optimizer import Optimizer

Function = Callable[[int], float]


class _LRScheduler(LRScheduler):
    """The older name of `LRScheduler`, as a base class of programs."""


class _FunctionLR(LRScheduler):
    """Holds one function per group; functions stay out of the state, objects that are called give theirs."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Function | list[Function], last_epoch: int) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(
                f"{type(self).__name__}: Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}"
            )
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state without functions, which the new scheduler brings itself."""
        kept = [None if isinstance(f, types.FunctionType) else dict(f.__dict__) for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        rest = dict(state_dict)
        for function, values in zip(self.lr_lambdas, rest.pop("lr_lambdas"), strict=True):
            if values is not None:
                function.__dict__.update(values)
        super().load_state_dict(rest)


@described
class LambdaLR(_FunctionLR):
    """Multiplies the initial rate of each group by a function of the epoch.

    Formula:
        lr = initial_lr * lr_lambda(epoch)

    Args:
        {optimizer}
        lr_lambda: the function from the epoch, an int from 0, to the factor; or a list of one function per
            group.
        {last_epoch}
    Raises: ValueError if the list does not have one function per group.

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> scheduler = flambeau.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Function | list[Function], last_epoch: int = -1
    ) -> None:
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rate of each group at the current epoch."""
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


@described
class MultiplicativeLR(_FunctionLR):
    """Multiplies the rate in use by a function of the epoch, at every epoch.

    Formula:
        lr = lr * lr_lambda(epoch)

    Args:
        {optimizer}
        lr_lambda: the function from the epoch, an int from 1, to the factor; or a list of one function per
            group.
        {last_epoch}
    Raises: ValueError if the list does not have one function per group.

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> scheduler = flambeau.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.125]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Function | list[Function], last_epoch: int = -1
    ) -> None:
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rate of each group at the current epoch."""
        rates = self._rates()
        if self._is_initial:
            return rates
        return [rate * f(self.last_epoch) for rate, f in zip(rates, self.lr_lambdas, strict=True)]


@described
class StepLR(MultipliedLR):
    """Multiplies the rate by a factor every `step_size` epochs.

    Args:
        {optimizer}
        step_size: the number of epochs between two changes, above 0.
        gamma: the factor.
        {last_epoch}
    See also: `MultiStepLR`

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> scheduler = flambeau.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def multiple(self, epoch: int) -> float:
        """gamma^(epoch // step_size)."""
        return float(self.gamma ** (epoch // self.step_size))

    def ratio(self, epoch: int) -> float:
        """Gamma where a stretch of epochs ends."""
        return self.gamma if epoch % self.step_size == 0 else 1.0


@described
class MultiStepLR(MultipliedLR):
    """Multiplies the rate by a factor at each of the given epochs.

    Args:
        {optimizer}
        milestones: the epochs at which the rate changes; an epoch listed twice applies the factor twice.
        gamma: the factor.
        {last_epoch}
    See also: `StepLR`

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> scheduler = flambeau.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def multiple(self, epoch: int) -> float:
        """gamma^(number of milestones reached)."""
        return float(self.gamma ** bisect_right(sorted(self.milestones.elements()), epoch))

    def ratio(self, epoch: int) -> float:
        """gamma^(number of milestones at this epoch)."""
        return float(self.gamma ** self.milestones[epoch])


@described
class ConstantLR(MultipliedLR):
    """Multiplies the initial rate by a factor during the first epochs, and restores it afterwards.

    Args:
        {optimizer}
        factor: the factor, in [0, 1].
        total_iters: the number of epochs with the reduced rate.
        {last_epoch}
    Raises: ValueError for a factor outside [0, 1].

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> scheduler = flambeau.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> scheduler.get_last_lr()
        [0.5]
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError(f"ConstantLR: expected a factor from 0 to 1, got {factor}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def multiple(self, epoch: int) -> float:
        """Factor, then 1."""
        return self.factor if epoch < self.total_iters else 1.0

    def ratio(self, epoch: int) -> float:
        """1 / factor at the end."""
        return 1.0 / self.factor if epoch == self.total_iters else 1.0

    def first(self) -> float:
        """The factor."""
        return self.factor


@described
class LinearLR(MultipliedLR):
    """Multiplies the initial rate by a factor that changes linearly during the first epochs.

    Formula:
        lr = initial_lr * (start_factor + (end_factor - start_factor) * min(epoch / total_iters, 1))

    Args:
        {optimizer}
        start_factor: the factor at the first epoch, in (0, 1].
        end_factor: the factor from epoch `total_iters` on, in [0, 1].
        total_iters: the number of epochs until the factor is `end_factor`.
        {last_epoch}
    Raises: ValueError for a factor out of its range.

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> scheduler = flambeau.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=4)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.75]
    """

    resumes = True

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(f"LinearLR: expected start_factor above 0 and up to 1, got {start_factor}")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(f"LinearLR: expected end_factor from 0 to 1, got {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def multiple(self, epoch: int) -> float:
        """The factor at an epoch."""
        share = min(self.total_iters, epoch) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * share

    def ratio(self, epoch: int) -> float:
        """The factor against that of the epoch before."""
        return self.multiple(epoch) / self.multiple(epoch - 1) if epoch <= self.total_iters else 1.0

    def first(self) -> float:
        """The factor of epoch 0."""
        return self.start_factor


@described
class ExponentialLR(MultipliedLR):
    """Multiplies the rate by a factor at every epoch.

    Args:
        {optimizer}
        gamma: the factor.
        {last_epoch}

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> scheduler = flambeau.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.125]
    """

    resumes = True

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def multiple(self, epoch: int) -> float:
        """gamma^epoch."""
        return float(self.gamma**epoch)

    def ratio(self, epoch: int) -> float:
        """Gamma."""
        return self.gamma


@described
class PolynomialLR(MultipliedLR):
    """Lowers the rate to 0 along a power of the remaining epochs.

    Formula:
        lr = initial_lr * (1 - min(epoch, total_iters) / total_iters)^power

    Args:
        {optimizer}
        total_iters: the number of epochs until the rate is 0.
        power: the exponent; 1 lowers the rate linearly.
        {last_epoch}

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> scheduler = flambeau.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=2.0)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    resumes = True

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def multiple(self, epoch: int) -> float:
        """The factor at an epoch."""
        return float((1.0 - min(self.total_iters, epoch) / self.total_iters) ** self.power)

    def ratio(self, epoch: int) -> float:
        """The factor against that of the epoch before."""
        if epoch > self.total_iters:
            return 1.0
        left = (1.0 - epoch / self.total_iters) / (1.0 - (epoch - 1) / self.total_iters)
        return float(left**self.power)


@described
class CosineAnnealingLR(LRScheduler):
    """Lowers the rate along half a cosine, from its initial value to `eta_min`.

    Formula:
        lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2

    Args:
        {optimizer}
        T_max: the number of epochs of half a period. The rate rises again after it.
        eta_min: the lowest rate.
        {last_epoch}
    See also: `CosineAnnealingWarmRestarts`
    Source: Loshchilov & Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", eq. 5, without
        restarts.

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> scheduler = flambeau.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> [round(lr, 6) for lr in scheduler.get_last_lr()]
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        return (1 + math.cos(math.pi * epoch / self.T_max)) / 2

    def get_lr(self) -> list[Any]:
        """Return the rate of each group, from the one before."""
        epoch, rates = self.last_epoch, self._rates()
        if self._is_initial:
            return rates
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # at the bottom there is nothing to scale
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                rate + (base - self.eta_min) * rise for rate, base in zip(rates, self.base_lrs, strict=True)
            ]
        factor = self._share(epoch) / self._share(epoch - 1)
        return [factor * (rate - self.eta_min) + self.eta_min for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        share = self._share(self.last_epoch)
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


@described
class CosineAnnealingWarmRestarts(LRScheduler):
    """Lowers the rate along half a cosine, then restarts it at the initial rate, in periods that may grow.

    Formula:
        lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2, T_i = T_0 * T_mult^i

    Args:
        {optimizer}
        T_0: the number of epochs of the first period, above 0.
        T_mult: the factor of the length of each period to the one before, 1 or more.
        eta_min: the lowest rate.
        {last_epoch}
    Raises: ValueError for an argument that is not a number or out of its range.
    See also: `CosineAnnealingLR`
    Source: Loshchilov & Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", eq. 5.

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> scheduler = flambeau.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> [round(lr, 6) for lr in rates]
        [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if value < 1 or not isinstance(value, int):
                what = "positive integer" if name == "T_0" else "integer >= 1"
                raise ValueError(f"CosineAnnealingWarmRestarts: Expected {what} {name}, but got {value}")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"CosineAnnealingWarmRestarts: expected a number as eta_min, got {eta_min!r}")
        self.T_0 = self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rate of each group at the current place of the cycle."""
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to the given one, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: expected epoch >= 0, got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n
        self.last_epoch = math.floor(epoch)
        self._apply(self.get_lr())


@described
class SequentialLR(LRScheduler):
    """Runs several schedulers of one optimizer one after the other; each starts at its milestone.

    Args:
        optimizer: the optimizer of all schedulers.
        schedulers: the schedulers, in order.
        milestones: the epochs at which the second and later schedulers start, one fewer than schedulers.
        {last_epoch}
    Raises: ValueError for a wrong number of milestones, or for schedulers of another optimizer.

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> warm = flambeau.optim.lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=2)
        >>> decay = flambeau.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> scheduler = flambeau.optim.lr_scheduler.SequentialLR(optimizer, [warm, decay], milestones=[2])
        >>> rates = []
        >>> for _ in range(4):
        ...     rates += scheduler.get_last_lr()
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [0.1, 0.1, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        _check_one_optimizer(type(self).__name__, optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: expected one scheduler more than milestones, got {len(schedulers)} "
                f"and {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:  # schedulers took their first step when they were made
            set_group_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Take back the first step of the schedulers inside `sched`, by default this one."""
        inside = getattr(self if sched is None else sched, "_schedulers", None)
        if inside is not None:
            for scheduler in inside:
                self.recursive_undo(scheduler)
        elif sched is not None:
            sched.last_epoch -= 1

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch."""
        self.last_epoch += 1
        place = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[place]
        if place > 0 and self._milestones[place - 1] == self.last_epoch:
            scheduler._go_to(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def _go_to(self, epoch: int) -> None:
        self.step(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all schedulers."""
        return _nested_state(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        _load_nested(self, state_dict)


class ChainedScheduler(LRScheduler):
    """Steps several schedulers of one optimizer together; each changes the rate that its predecessor sets.

    Args:
        schedulers: the schedulers, one or more.
        optimizer: their optimizer. None means the optimizer of the first scheduler.
    Raises: ValueError without schedulers, or for schedulers of another optimizer.

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> halve = flambeau.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> drop = flambeau.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
        >>> scheduler = flambeau.optim.lr_scheduler.ChainedScheduler([halve, drop])
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.025]
    """

    def __init__(self, schedulers: Iterable[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._schedulers = list(schedulers)
        if not self._schedulers:
            raise ValueError(f"{type(self).__name__}: expected one scheduler or more, got none")
        self.optimizer = self._schedulers[0].optimizer if optimizer is None else optimizer
        _check_one_optimizer(type(self).__name__, self.optimizer, self._schedulers)
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Step every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all schedulers."""
        return _nested_state(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        _load_nested(self, state_dict)


def _check_one_optimizer(name: str, optimizer: Optimizer, schedulers: list[LRScheduler]) -> None:
    if not schedulers:
        raise ValueError(f"{name}: expected one scheduler or more, got none")
    for place, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(
                f"{name}: expected an optimizer in scheduler {place}, got {type(scheduler).__name__} "
                "without one"
            )
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name}: expected schedulers without a metric, got ReduceLROnPlateau, which needs one"
            )
        if scheduler.optimizer is not optimizer:
            raise ValueError(
                f"{name}: expected schedulers of one optimizer, got {type(scheduler).__name__} of "
                f"another at place {place}"
            )


def _nested_state(scheduler: Any) -> dict[str, Any]:
    state = {k: v for k, v in vars(scheduler).items() if k not in ("optimizer", "_schedulers")}
    return {**state, "_schedulers": [inner.state_dict() for inner in scheduler._schedulers]}


def _load_nested(scheduler: Any, state_dict: dict[str, Any]) -> None:
    vars(scheduler).update({k: v for k, v in state_dict.items() if k != "_schedulers"})
    for inner, state in zip(scheduler._schedulers, state_dict["_schedulers"], strict=True):
        inner.load_state_dict(state)


__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
    "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

__getattr__, __dir__ = attributes(__name__)
