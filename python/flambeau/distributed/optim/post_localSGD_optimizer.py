"""PostLocalSGDOptimizer: an optimizer whose parameters are averaged over processes now and then."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from flambeau.distributed.algorithms.model_averaging.averagers import ModelAverager
from flambeau.optim.optimizer import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps by another optimizer, and averages the parameters when an averager says so.

    Args:
        optim: the other optimizer.
        averager: the schedule of averages.
    Source: Lin et al. 2020, "Don't Use Large Mini-Batches, Use Local SGD".
    See also: distributed.algorithms.model_averaging.averagers.PeriodicModelAverager

    Example:
        >>> from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> w = flambeau.nn.Parameter(flambeau.ones(2))
        >>> sgd = flambeau.optim.SGD([w], lr=0.5)
        >>> optimizer = dist.optim.PostLocalSGDOptimizer(sgd, PeriodicModelAverager(period=4))
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.5, 0.5]
        >>> dist.destroy_process_group()
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The states of the other optimizer."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the other optimizer, and ``step``, that of the averager."""
        return self.optim.state_dict() | {"step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state; without ``step``, averages begin anew, with a warning.

        Args:
            state_dict: what `state_dict` returned.
        """
        self.optim.load_state_dict({k: v for k, v in state_dict.items() if k != "step"})
        self.param_groups = self.optim.param_groups
        if "step" not in state_dict:
            warnings.warn(
                "PostLocalSGDOptimizer.load_state_dict: Loaded state dict does not contain a step counter "
                "for an averager: expected step, got none; the averager begins at 0",
                UserWarning,
                stacklevel=2,
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run a step of the other optimizer, then average the parameters if it is time to.

        Args:
            closure: computes the loss again, for optimizers that need it.
        Returns: the loss of `closure`, or None.
        """
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(params=self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients.

        Args:
            set_to_none: whether they become None instead of zero.
        """
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters to the other optimizer.

        Args:
            param_group: a dict with ``params`` and hyperparameters.
        """
        self.optim.add_param_group(param_group)
