"""Several schedulers of one optimizer: one after the other, or together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from flambeau.optim._arguments import described
from flambeau.optim._plateau import ReduceLROnPlateau
from flambeau.optim._schedule import LRScheduler, set_group_value
from flambeau.optim.optimizer import Optimizer


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
