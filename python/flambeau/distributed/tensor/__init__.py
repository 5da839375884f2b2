"""Tensors whose parts are on the processes of a mesh (docs/distributed.md)."""

from __future__ import annotations

from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.tensor._api import DTensor, distribute_module, distribute_tensor
from flambeau.distributed.tensor._factories import empty, full, ones, rand, randn, zeros
from flambeau.distributed.tensor._placements import Partial, Placement, Replicate, Shard, _StridedShard
from flambeau.distributed.tensor._spec import DTensorSpec, TensorMeta
from flambeau.serialization import add_safe_globals

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "ones",
    "rand",
    "randn",
    "zeros",
]

# What files of state dicts consist of: `load` makes these without weights_only=False.
add_safe_globals([DTensor, DTensorSpec, DeviceMesh, Partial, Replicate, Shard, TensorMeta, _StridedShard])
