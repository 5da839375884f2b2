"""Communication hooks of `DistributedDataParallel`."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import Any

from flambeau._loading.lazy import attributes
from flambeau.distributed import _comm_hooks as default_hooks
from flambeau.distributed.algorithms.ddp_comm_hooks import debugging_hooks, powerSGD_hook
from flambeau.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


def _plain(hook: Callable[..., Any], model: DistributedDataParallel, state: Any) -> None:
    model.register_comm_hook(state, hook)


def _power(hook: Callable[..., Any], rank: int, model: DistributedDataParallel, state: Any) -> None:
    model.register_comm_hook(powerSGD_hook.PowerSGDState(state, rank), hook)


class DDPCommHookType(enum.Enum):
    """The hooks that `register_ddp_comm_hook` knows by name.

    Example:
        >>> flambeau.distributed.algorithms.ddp_comm_hooks.DDPCommHookType.FP16_COMPRESS.name
        'FP16_COMPRESS'
    """

    ALLREDUCE = partial(_plain, default_hooks.allreduce_hook)
    FP16_COMPRESS = partial(_plain, default_hooks.fp16_compress_hook)
    BF16_COMPRESS = partial(_plain, default_hooks.bf16_compress_hook)
    POWER_SGD = partial(_power, powerSGD_hook.powerSGD_hook, 1)
    POWER_SGD_RANK2 = partial(_power, powerSGD_hook.powerSGD_hook, 2)
    BATCHED_POWER_SGD = partial(_power, powerSGD_hook.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = partial(_power, powerSGD_hook.batched_powerSGD_hook, 2)
    NOOP = partial(_plain, debugging_hooks.noop_hook)


def register_ddp_comm_hook(
    comm_hook_type: DDPCommHookType, model: DistributedDataParallel, state: Any = None
) -> None:
    """Register a hook, by name, that reduces the gradients of a model.

    Args:
        comm_hook_type: the hook.
        model: the model.
        state: the process group; None: all processes.
    Returns: None.
    Raises: TypeError for another hook; RuntimeError if the model has one.

    Example:
        >>> dist = flambeau.distributed
        >>> from flambeau.distributed.algorithms import ddp_comm_hooks
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(2, 1))
        >>> ddp_comm_hooks.register_ddp_comm_hook(ddp_comm_hooks.DDPCommHookType.ALLREDUCE, model)
        >>> dist.destroy_process_group()
    """
    if not isinstance(comm_hook_type, DDPCommHookType):
        raise TypeError(
            f"register_ddp_comm_hook: expected a DDPCommHookType, got {type(comm_hook_type).__name__}"
        )
    comm_hook_type.value(model=model, state=state)


__getattr__, __dir__ = attributes(__name__)
