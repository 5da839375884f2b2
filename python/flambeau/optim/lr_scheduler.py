"""Schedules of the learning rate. Call ``step()`` once per epoch, after the optimizer's step."""

from __future__ import annotations

import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from flambeau._loading.lazy import attributes
from flambeau.optim._arguments import described
from flambeau.optim._combined import ChainedScheduler, SequentialLR
from flambeau.optim._cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from flambeau.optim._cycle import CyclicLR, OneCycleLR
from flambeau.optim._plateau import ReduceLROnPlateau
from flambeau.optim._schedule import LRScheduler, MultipliedLR
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


__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
    "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

for _name in __all__:
    globals()[_name].__module__ = __name__  # also of the classes that private modules define

__getattr__, __dir__ = attributes(__name__)
