"""Schedules of the learning rate. Call ``step()`` once per epoch, after the optimizer's step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from flambeau.optim.optimizer import Optimizer


class LRScheduler:
    """Sets each group's ``lr`` from its initial value and the epoch.

    Subclasses define ``factor(epoch)``: what the initial rate is multiplied with.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in a param group when resuming an optimizer"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    def factor(self, epoch: int) -> float:
        """Return the multiple of the initial rate at `epoch`."""
        raise TypeError(f"{type(self).__name__} must define factor(epoch)")

    def rates(self) -> list[float]:
        """Return the rate of each group at the current epoch."""
        return [base * self.factor(self.last_epoch) for base in self.base_lrs]

    def step(self) -> None:
        """Go to the next epoch."""
        self.last_epoch += 1
        for group, rate in zip(self.optimizer.param_groups, self.rates(), strict=True):
            group["lr"] = rate
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """Return the rates in use."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer and functions."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not callable(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """Multiply the initial rate by ``lr_lambda(epoch)`` (one function, or one per group)."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = lr_lambda if isinstance(lr_lambda, list) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def rates(self) -> list[float]:
        """Return the rate of each group at the current epoch."""
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return the state without the functions, which the new scheduler brings itself."""
        return {k: v for k, v in super().state_dict().items() if k != "lr_lambdas"}


class StepLR(LRScheduler):
    """Multiply the rate by `gamma` every `step_size` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """gamma^(epoch // step_size)."""
        return float(self.gamma ** (epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """Multiply the rate by `gamma` at each of the epochs in `milestones`."""

    def __init__(
        self, optimizer: Optimizer, milestones: list[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = sorted(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """gamma^(number of milestones reached)."""
        return float(self.gamma ** bisect_right(self.milestones, epoch))


class ExponentialLR(LRScheduler):
    """Multiply the rate by `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """gamma^epoch."""
        return float(self.gamma**epoch)


class CosineAnnealingLR(LRScheduler):
    """Lower the rate along half a cosine from its initial value to `eta_min` in `T_max` epochs.

    Source: Loshchilov and Hutter 2017, "SGDR", eq. 5, without restarts.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def rates(self) -> list[float]:
        """Return the rate of each group at the current epoch."""
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]
