"""The schedule that waits for a metric to stop improving."""

from __future__ import annotations

import math
from typing import Any

from flambeau.optim._arguments import described
from flambeau.optim._schedule import LRScheduler, set_group_value
from flambeau.optim.optimizer import Optimizer


@described
class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by a factor when a metric has stopped improving.

    Call ``step(metrics)`` once per epoch, with the metric of that epoch.

    Args:
        {optimizer}
        mode: "min" if a lower metric is better, "max" if a higher one is.
        factor: the factor, below 1.
        patience: the number of epochs without improvement that do not change the rate.
        threshold: the smallest difference that counts as an improvement, 0 or more.
        threshold_mode: "rel" if `threshold` is a share of the best metric, "abs" if it is a difference.
        cooldown: the number of epochs after a reduction in which the absence of improvement is not counted.
        min_lr: the lowest rate; a number, or a list of one number per group.
        eps: a change of the rate that is not larger than this is not made.
    Raises: ValueError for an unknown mode, a factor of 1 or more or a wrong number of `min_lr`; TypeError if
        `optimizer` is not an `Optimizer`.

    Example:
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> scheduler = flambeau.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
        >>> for loss in (3.0, 2.0, 2.0, 2.0):
        ...     scheduler.step(loss)
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: expected factor < 1.0, got {factor}")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"ReduceLROnPlateau: expected an Optimizer, got {type(optimizer).__name__}, which is not "
                "an Optimizer"
            )
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: expected mode 'min' or 'max', got {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"ReduceLROnPlateau: expected threshold_mode 'rel' or 'abs', got {threshold_mode!r}"
            )
        count = len(optimizer.param_groups)
        if isinstance(min_lr, list | tuple) and len(min_lr) != count:
            raise ValueError(f"ReduceLROnPlateau: expected {count} min_lrs, got {len(min_lr)}")
        self.optimizer = optimizer
        self.factor, self.patience, self.cooldown, self.eps = factor, patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.min_lrs = list(min_lr) if isinstance(min_lr, list | tuple) else [min_lr] * count
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        self.last_epoch = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._reset()

    def _reset(self) -> None:
        """Forget the metric's past."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs without improvement do not count now."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether `a` is an improvement."""
        sign = 1 if self.mode == "max" else -1
        bar = (
            best * (1 + sign * self.threshold)
            if self.threshold_mode == "rel"
            else best + sign * self.threshold
        )
        return a > bar if self.mode == "max" else a < bar

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Look at the metric of an epoch."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _reduce_lr(self, epoch: int) -> None:
        missing = len(self.optimizer.param_groups) - len(self.min_lrs)
        if missing > 0 and self.default_min_lr is None:
            raise RuntimeError(
                "ReduceLROnPlateau: expected a min_lr for each of "
                f"{len(self.optimizer.param_groups)} groups, got {len(self.min_lrs)}"
            )
        if self.default_min_lr is not None:
            self.min_lrs += [self.default_min_lr] * missing
        for group, low in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, low)
            if old - new > self.eps:
                set_group_value(group, "lr", new)

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer."""
        return {k: v for k, v in vars(self).items() if k != "optimizer"}
