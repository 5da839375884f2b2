"""The base of schedulers: the rates of an optimizer's groups, epoch by epoch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flambeau import Tensor
from flambeau.optim._arguments import described
from flambeau.optim.optimizer import Optimizer


def set_group_value(group: dict[str, Any], name: str, value: Any) -> None:
    """Set a hyperparameter; one that is a tensor keeps its identity."""
    if isinstance(group[name], Tensor):
        group[name].fill_(float(value))
    else:
        group[name] = value


@described
class LRScheduler:
    """Base class of schedulers: sets the learning rate of each group of an optimizer at each epoch.

    Call ``step()`` once per epoch, after the optimizer's step. A subclass defines ``get_lr``, which returns
    the rates of the groups at ``self.last_epoch``, computed from the rates in use or from ``self.base_lrs``.

    Args:
        {optimizer}
        {last_epoch}
    Raises: TypeError if `optimizer` is not an `Optimizer`, KeyError if a group to resume has no
        ``initial_lr``.

    Example:
        >>> class Halving(flambeau.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [base / 2**self.last_epoch for base in self.base_lrs]
        >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=1.0)
        >>> scheduler = Halving(optimizer)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"{type(self).__name__}: expected an Optimizer, got {type(optimizer).__name__}, which is "
                "not an Optimizer"
            )
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                rate = group["lr"]
                group.setdefault("initial_lr", rate.clone() if isinstance(rate, Tensor) else rate)
            elif "initial_lr" not in group:
                raise KeyError(f"param_groups[{i}] has no 'initial_lr', which resuming needs")
        self.base_lrs = [_copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    @contextmanager
    def _first_step(self) -> Iterator[None]:
        self._is_initial = True
        try:
            yield
        finally:
            del self._is_initial

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        with self._first_step():
            self.step()

    def _rates(self) -> list[Any]:
        return [_copied(group["lr"]) for group in self.optimizer.param_groups]

    def _apply(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_group_value(group, "lr", rate)
        self._last_lr = self._rates()

    def get_lr(self) -> list[Any]:
        """Return the rate of each group at the current epoch; subclasses define it.

        Raises: NotImplementedError if the subclass does not define it.
        Returns: a list with one rate for each group.
        """
        raise NotImplementedError(f"{type(self).__name__} must define get_lr()")

    def get_last_lr(self) -> list[Any]:
        """Return the rates in use.

        Returns: a list with one rate for each group, as the last step set them.
        """
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch, or of the given one.

        Args:
            epoch: deprecated: the epoch whose rates are set. None means the next one.
        Returns: None.
        """
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", True):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first rate of the "
                "schedule is skipped",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warnings.warn("step: the argument epoch is deprecated; call step() once per epoch", stacklevel=2)
            self._go_to(epoch)
            return
        self.last_epoch += 1
        self._apply(self.get_lr())

    def _go_to(self, epoch: int) -> None:
        """Set the rates of an epoch; it does not count as a step."""
        self.last_epoch = epoch
        self._apply((getattr(self, "_get_closed_form_lr", None) or self.get_lr)())

    def state_dict(self) -> dict[str, Any]:
        """Return the attributes of the scheduler except the optimizer.

        Returns: a dict by attribute name; values are not copied.
        """
        return {k: v for k, v in vars(self).items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned.

        Args:
            state_dict: the state of a scheduler of the same class.
        Returns: None.
        """
        vars(self).update(state_dict)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


class MultipliedLR(LRScheduler):
    """A schedule that multiplies the initial rate, by `multiple(epoch)`.

    Steps multiply the rate in use by `ratio(epoch)`, the change of that from the epoch before, so that
    schedules can be chained and rates be set by hand in between.
    """

    resumes = False  # whether a schedule that goes on from a later epoch finds that epoch's rate set

    def multiple(self, epoch: int) -> float:
        """Return the rate at `epoch`, in initial rates."""
        raise NotImplementedError(f"{type(self).__name__} must define multiple(epoch)")

    def ratio(self, epoch: int) -> float:
        """Return the rate at `epoch`, in those of the epoch before."""
        raise NotImplementedError(f"{type(self).__name__} must define ratio(epoch)")

    def first(self) -> float:
        """Return the factor of the first epoch."""
        return 1.0

    def get_lr(self) -> list[Any]:
        """Return the rate of each group, from the one in use."""
        if self.last_epoch == 0:
            factor = self.first()
        else:
            factor = 1.0 if self.resumes and self._is_initial else self.ratio(self.last_epoch)
        return [rate * factor for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.multiple(self.last_epoch) for base in self.base_lrs]
