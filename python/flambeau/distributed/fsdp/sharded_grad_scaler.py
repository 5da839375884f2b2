"""ShardedGradScaler: scaling of losses where each process has a part of the gradients."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.amp.grad_scaler import GradScaler
from flambeau.distributed._collectives import all_reduce
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import ReduceOp

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """Scales losses so that small gradients do not vanish, where processes have parts of the gradients.

    `amp.GradScaler` looks at the gradients of its own process. If one process found an infinite gradient and
    another did not, only one of them would skip the step. Here `unscale_`, and `step` without it, agree over
    all processes: every process of the group calls them. Gradients can be in float16.

    Args:
        device: the device type: "cuda", which disables the scaler without it, or "cpu".
        init_scale: the initial scale.
        backoff_factor: the factor by which the scale shrinks, below 1.
        growth_factor: the factor by which the scale grows, above 1.
        growth_interval: the number of successive finite steps after which the scale grows.
        enabled: False makes `scale` the identity and `step` the optimizer's own.
        process_group: the processes that have parts of the same model. Default: all.
    Shape:
        `scale` keeps shapes.
    Raises: AssertionError for factors outside their range; TypeError for another object as `process_group`.
    Source: Micikevicius et al. 2018, "Mixed Precision Training", section 3.2.
    See also: amp.GradScaler, distributed.fsdp.FullyShardedDataParallel

    Example:
        >>> from flambeau.distributed.fsdp import FullyShardedDataParallel
        >>> from flambeau.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = FullyShardedDataParallel(flambeau.nn.Linear(2, 1))
        >>> optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
        >>> scaler = ShardedGradScaler("cpu", init_scale=8.0)
        >>> scaler.scale(model(flambeau.full((1, 2), float("inf"))).sum()).backward()
        >>> scaler.step(optimizer)  # skipped, as a gradient is infinite
        >>> scaler.update()
        >>> scaler.get_scale()
        4.0
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: ProcessGroup | None = None,
    ) -> None:
        if process_group is not None and not isinstance(process_group, ProcessGroup):
            raise TypeError(
                f"ShardedGradScaler: expected a ProcessGroup or None as process_group, got {process_group!r}"
            )
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        return super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16=True)

    def unscale_(self, optimizer: Any) -> None:
        """Divide an optimizer's gradients by the factor; all processes of the group call this.

        Args:
            optimizer: the optimizer; in some processes its parameters may have no gradients.
        Raises: RuntimeError for a second call before `update`.
        """
        super().unscale_(optimizer)
        if not self._enabled:
            return
        scale, _ = self._made("unscale_")
        found = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        if not found:  # a process whose part is empty still takes part in the reduction
            found[scale.device] = flambeau.zeros((), dtype=flambeau.float32, device=scale.device)
        for overflow in found.values():
            all_reduce(overflow, ReduceOp.MAX, self.process_group)
