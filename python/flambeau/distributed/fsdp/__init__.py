"""Parameters divided among processes (docs/distributed.md)."""

from __future__ import annotations

from flambeau._loading.lazy import attributes
from flambeau.distributed.fsdp._flat import FlatParameter
from flambeau.distributed.fsdp._module import (
    FSDPModule,
    UnshardHandle,
    register_fsdp_forward_method,
    share_comm_ctx,
)
from flambeau.distributed.fsdp._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from flambeau.distributed.fsdp._shard import fully_shard
from flambeau.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from flambeau.distributed.fsdp.fully_sharded_data_parallel import (
    FullyShardedDataParallel,
    OptimStateKeyType,
)

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "CPUOffloadPolicy",
    "FSDPModule",
    "FlatParameter",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "share_comm_ctx",
]

# A name of PyTorch's for meshes of `fully_shard`.
_UNBUILT = ("DataParallelMeshDims",)

__getattr__, __dir__ = attributes(__name__, dict.fromkeys(_UNBUILT, "flambeau.distributed.fsdp._unbuilt"))
