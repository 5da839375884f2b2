"""What `fully_shard` does about dtypes and devices."""

from __future__ import annotations

from dataclasses import dataclass

import flambeau

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes in which a sharded module computes and communicates.

    The parts of the parameters, and with them the optimizer, keep the dtype that the parameters had.

    Args:
        param_dtype: the dtype of the gathered parameters; None: their own.
        reduce_dtype: the dtype in which gradients are reduced and accumulated; None: that of the gathered
            parameters.
        output_dtype: the dtype of floating-point results of the module; None: as they are.
        cast_forward_inputs: whether floating-point arguments are cast to `param_dtype`.

    Example:
        >>> from flambeau.distributed.fsdp import MixedPrecisionPolicy
        >>> MixedPrecisionPolicy(param_dtype=flambeau.bfloat16).cast_forward_inputs
        True
    """

    param_dtype: flambeau.dtype | None = None
    reduce_dtype: flambeau.dtype | None = None
    output_dtype: flambeau.dtype | None = None
    cast_forward_inputs: bool = True


@dataclass(frozen=True)
class OffloadPolicy:
    """Parameters, gradients and optimizer states stay on the device of the mesh.

    Example:
        >>> flambeau.distributed.fsdp.OffloadPolicy()
        OffloadPolicy()
    """


@dataclass(frozen=True)
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters, gradients and optimizer states are in the memory of the host.

    A mesh of flambeau consists of CPUs, where this is so anyway: the policy has no further effect.

    Args:
        pin_memory: no effect; memory of the host needs no pinning without another device.

    Example:
        >>> flambeau.distributed.fsdp.CPUOffloadPolicy().pin_memory
        True
    """

    pin_memory: bool = True


for _policy in (MixedPrecisionPolicy, OffloadPolicy, CPUOffloadPolicy):
    _policy.__module__ = "flambeau.distributed.fsdp"
