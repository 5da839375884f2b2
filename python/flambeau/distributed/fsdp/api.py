"""The options of `FullyShardedDataParallel`: how parameters are divided, dtypes, and forms of states."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import flambeau
from flambeau.nn.modules.normalization import _BatchNorm

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class ShardingStrategy(enum.Enum):
    """What the processes divide among themselves.

    ``FULL_SHARD``: parameters, gradients and optimizer states; parameters are freed after forward.
    ``SHARD_GRAD_OP``: the same, but parameters stay whole from forward to backward.
    ``NO_SHARD``: nothing; gradients are averaged.
    ``HYBRID_SHARD``: as ``FULL_SHARD`` within a group of processes, with copies in the other groups.
    ``_HYBRID_SHARD_ZERO2``: as ``SHARD_GRAD_OP`` within a group, with copies in the other groups.

    Example:
        >>> flambeau.distributed.fsdp.ShardingStrategy.FULL_SHARD.value
        1
    """

    FULL_SHARD = enum.auto()
    SHARD_GRAD_OP = enum.auto()
    NO_SHARD = enum.auto()
    HYBRID_SHARD = enum.auto()
    _HYBRID_SHARD_ZERO2 = enum.auto()


class BackwardPrefetch(enum.Enum):
    """When backward gathers the next parameters.

    ``BACKWARD_PRE``: before the gradients of the current module are computed.
    ``BACKWARD_POST``: after they are computed, before their reduction starts, which needs less memory.

    Example:
        >>> flambeau.distributed.fsdp.BackwardPrefetch.BACKWARD_PRE.value
        1
    """

    BACKWARD_PRE = enum.auto()
    BACKWARD_POST = enum.auto()


@dataclass
class MixedPrecision:
    """The dtypes in which a wrapped module computes and communicates.

    The divided parameters, and with them the optimizer, keep the dtype that the parameters had.

    Args:
        param_dtype: the dtype of the gathered parameters; None: their own.
        reduce_dtype: the dtype in which gradients are reduced; None: `param_dtype`.
        buffer_dtype: the dtype of floating-point buffers from the first forward pass on; None: their own.
        keep_low_precision_grads: whether gradients of parts have the dtype of computation, or that of the
            reduction where processes have whole parameters, in place of their parameter's. SGD takes such
            gradients; Adam needs those of the parameter's dtype.
        cast_forward_inputs: whether each wrapped module casts its floating-point arguments to `param_dtype`.
        cast_root_forward_inputs: whether the outermost wrapped module does.
        _module_classes_to_ignore: with an ``auto_wrap_policy``, modules of these classes are wrapped apart
            and compute with their own dtype.

    Example:
        >>> flambeau.distributed.fsdp.MixedPrecision(param_dtype=flambeau.bfloat16).cast_root_forward_inputs
        True
    """

    param_dtype: flambeau.dtype | None = None
    reduce_dtype: flambeau.dtype | None = None
    buffer_dtype: flambeau.dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parameters are moved to the memory of the host between uses.

    Args:
        offload_params: no effect, since parameters are in the memory of the host.

    Example:
        >>> flambeau.distributed.fsdp.CPUOffload()
        CPUOffload(offload_params=False)
    """

    offload_params: bool = False


class StateDictType(enum.Enum):
    """The form of the states of models and optimizers.

    ``FULL_STATE_DICT``: whole tensors. ``SHARDED_STATE_DICT``: a `DTensor` per parameter.
    ``LOCAL_STATE_DICT``: this process's part of each flat parameter; loads with the same division only.

    Example:
        >>> [kind.name for kind in flambeau.distributed.fsdp.StateDictType]
        ['FULL_STATE_DICT', 'LOCAL_STATE_DICT', 'SHARDED_STATE_DICT']
    """

    FULL_STATE_DICT = enum.auto()
    LOCAL_STATE_DICT = enum.auto()
    SHARDED_STATE_DICT = enum.auto()


@dataclass
class StateDictConfig:
    """The base of the options of a model's state.

    Args:
        offload_to_cpu: no effect, since tensors are in the memory of the host.

    Example:
        >>> flambeau.distributed.fsdp.StateDictConfig().offload_to_cpu
        False
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Options of states with whole tensors.

    Args:
        offload_to_cpu: no effect.
        rank0_only: whether only rank 0 gets the state; the others get an empty dict.

    Example:
        >>> flambeau.distributed.fsdp.FullStateDictConfig(rank0_only=True).rank0_only
        True
    """

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Options of states with parts of flat parameters.

    Args:
        offload_to_cpu: no effect.

    Example:
        >>> flambeau.distributed.fsdp.LocalStateDictConfig()
        LocalStateDictConfig(offload_to_cpu=False)
    """


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Options of states with a `DTensor` per parameter.

    Args:
        offload_to_cpu: no effect.
        _use_dtensor: no effect; parts are always a `DTensor`.

    Example:
        >>> flambeau.distributed.fsdp.ShardedStateDictConfig().offload_to_cpu
        False
    """

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """The base of the options of an optimizer's state.

    Args:
        offload_to_cpu: no effect, since tensors are in the memory of the host.

    Example:
        >>> flambeau.distributed.fsdp.OptimStateDictConfig().offload_to_cpu
        True
    """

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Options of optimizer states with whole tensors.

    Args:
        offload_to_cpu: no effect.
        rank0_only: whether only rank 0 gets the state; the others get an empty dict.

    Example:
        >>> flambeau.distributed.fsdp.FullOptimStateDictConfig().rank0_only
        False
    """

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Options of optimizer states of the type ``LOCAL_STATE_DICT``, which have the form of sharded ones.

    Args:
        offload_to_cpu: no effect.

    Example:
        >>> flambeau.distributed.fsdp.LocalOptimStateDictConfig().offload_to_cpu
        False
    """

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Options of optimizer states with a `DTensor` per value.

    Args:
        offload_to_cpu: no effect.
        _use_dtensor: no effect; parts are always a `DTensor`.

    Example:
        >>> flambeau.distributed.fsdp.ShardedOptimStateDictConfig().offload_to_cpu
        True
    """

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """What `FullyShardedDataParallel.get_state_dict_type` returns.

    Args:
        state_dict_type: the form of states.
        state_dict_config: the options of the model's state.
        optim_state_dict_config: the options of the optimizer's state.

    Example:
        >>> from flambeau.distributed.fsdp import (
        ...     LocalOptimStateDictConfig, LocalStateDictConfig, StateDictSettings, StateDictType)
        >>> kind = StateDictType.LOCAL_STATE_DICT
        >>> StateDictSettings(kind, LocalStateDictConfig(), LocalOptimStateDictConfig()).state_dict_type.name
        'LOCAL_STATE_DICT'
    """

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
