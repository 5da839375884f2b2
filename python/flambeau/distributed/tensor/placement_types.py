"""The placements of `flambeau.distributed.tensor`, under PyTorch's name of the module."""

from __future__ import annotations

from flambeau._loading.lazy import attributes
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._placements import Partial, Placement, Replicate, Shard, _StridedShard

__all__ = ["DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "_StridedShard"]

# Names of PyTorch's module that are its own machinery.
_UNBUILT = (
    "MaskBuffer fill_empty_tensor_to_shards maybe_run_for_local_tensor mesh_broadcast "
    "mesh_scatter pad_tensor shard_dim_alltoall unpad_tensor"
).split()

__getattr__, __dir__ = attributes(__name__, dict.fromkeys(_UNBUILT, "flambeau.distributed.tensor._unbuilt"))
