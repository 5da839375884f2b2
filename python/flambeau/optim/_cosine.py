"""Schedules along a cosine, without and with restarts."""

from __future__ import annotations

import math
from typing import Any

from flambeau.optim._arguments import described
from flambeau.optim._schedule import LRScheduler
from flambeau.optim.optimizer import Optimizer


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
