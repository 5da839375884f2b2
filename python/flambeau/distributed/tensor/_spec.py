"""DTensorSpec: the mesh and placements of a tensor, and the tensor's shape."""

from __future__ import annotations

from dataclasses import dataclass

import flambeau
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._placements import Placement, Shard, in_order


@dataclass(frozen=True)
class TensorMeta:
    """The shape, strides and dtype of a whole tensor."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: flambeau.dtype


@dataclass(frozen=True)
class DTensorSpec:
    """The mesh and placements of a tensor, and the shape of the whole."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor."""
        return self.tensor_meta.shape

    def placed(self, placements: tuple[Placement, ...]) -> DTensorSpec:
        """Return the specification with other placements."""
        return DTensorSpec(self.mesh, placements, self.tensor_meta)


def coordinate(mesh: DeviceMesh) -> tuple[int, ...]:
    """Return the place of this process in a mesh, which is looked up once per mesh."""
    found = vars(mesh).get("_coordinate")
    if found is None:
        here = mesh.get_coordinate()
        if here is None:
            raise RuntimeError(f"DTensor: expected a process of the mesh {mesh}, got rank {mesh.get_rank()}")
        found = mesh.__dict__["_coordinate"] = tuple(here)
    return tuple(found)


def sizes_above(spec: DTensorSpec, mesh_dim: int, dim: int) -> int:
    """Return the size that a dimension of the mesh divides: what the dimensions before it leave."""
    size = spec.shape[dim]
    for earlier in in_order(spec.placements):
        placement = spec.placements[earlier]
        if earlier == mesh_dim:
            break
        if isinstance(placement, Shard) and placement.dim == dim:
            size = part(spec.mesh, earlier, size)[0]
    return size


def part(mesh: DeviceMesh, mesh_dim: int, size: int) -> tuple[int, int]:
    """Return the size and begin of this process's part along a dimension of the mesh."""
    return Shard.local_shard_size_and_offset(size, mesh.size(mesh_dim), coordinate(mesh)[mesh_dim])


def local_shape(mesh: DeviceMesh, placements: tuple[Placement, ...], shape: tuple[int, ...]) -> list[int]:
    """Return the shape of this process's part of a tensor."""
    sizes = list(shape)
    for mesh_dim in in_order(placements):
        placement = placements[mesh_dim]
        if isinstance(placement, Shard):
            sizes[placement.dim] = part(mesh, mesh_dim, sizes[placement.dim])[0]
    return sizes
