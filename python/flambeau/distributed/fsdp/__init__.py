"""Parameters divided among processes (docs/distributed.md)."""

from __future__ import annotations

from flambeau._loading.lazy import attributes
from flambeau.distributed.fsdp._module import (
    FSDPModule,
    UnshardHandle,
    register_fsdp_forward_method,
    share_comm_ctx,
)
from flambeau.distributed.fsdp._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from flambeau.distributed.fsdp._shard import fully_shard

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "share_comm_ctx",
]

# Names of the older wrapper class.
_UNBUILT = """
    BackwardPrefetch CPUOffload DataParallelMeshDims FlatParameter FullOptimStateDictConfig
    FullStateDictConfig FullyShardedDataParallel LocalOptimStateDictConfig LocalStateDictConfig
    MixedPrecision OptimStateDictConfig OptimStateKeyType ShardedOptimStateDictConfig
    ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictSettings StateDictType
""".split()

__getattr__, __dir__ = attributes(__name__, dict.fromkeys(_UNBUILT, "flambeau.distributed.fsdp._unbuilt"))
