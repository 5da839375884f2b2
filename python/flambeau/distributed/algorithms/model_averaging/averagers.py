"""When the models of several processes are averaged."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from flambeau.distributed._groups import default_group
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed.algorithms.model_averaging.utils import average_parameters_or_parameter_groups

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Base class of schedules of averages.

    Args:
        process_group: the processes; None: all.

    Attributes:
        step: the number of calls of `average_parameters`.
    See also: PeriodicModelAverager

    Example:
        >>> from flambeau.distributed.algorithms.model_averaging.averagers import ModelAverager
        >>> issubclass(ModelAverager, object)
        True
    """

    def __init__(self, process_group: ProcessGroup | None = None) -> None:
        self.process_group = default_group() if process_group is None else process_group
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average the parameters that have gradients, if it is time to.

        Args:
            params: parameters, or dicts of parameter groups.
        """


class PeriodicModelAverager(ModelAverager):
    """Averages the parameters of all processes in every `period`-th step.

    Args:
        period: the number of steps from one average to the next.
        warmup_steps: the number of steps at first without an average.
        process_group: the processes; None: all.
    Raises: ValueError for a negative `warmup_steps`, or a `period` that is not positive.
    Source: Lin et al. 2020, "Don't Use Large Mini-Batches, Use Local SGD".
    See also: distributed.optim.PostLocalSGDOptimizer

    Example:
        >>> from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> averager = PeriodicModelAverager(period=4, warmup_steps=100)
        >>> averager.average_parameters(flambeau.nn.Linear(2, 1).parameters())
        >>> averager.step
        1
        >>> dist.destroy_process_group()
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: ProcessGroup | None = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError(
                f"PeriodicModelAverager: expected warmup_steps of at least 0, got {warmup_steps}: Arg "
                "``warmup_steps`` must be a non-negative number."
            )
        if period < 1:
            raise ValueError(
                f"PeriodicModelAverager: expected a positive period, got {period}: Arg ``period`` must be a "
                "positive value."
            )
        if period == 1:
            warnings.warn(
                "PeriodicModelAverager: expected a period above 1, got 1: averages of models in every step "
                "cost as much as those of gradients",
                UserWarning,
                stacklevel=2,
            )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average the parameters that have gradients, in every `period`-th step after the first ones.

        Args:
            params: parameters, or dicts of parameter groups.
        """
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
