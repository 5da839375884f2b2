"""DTensorSpec: the mesh and placements of a tensor, and the tensor's shape."""

from __future__ import annotations

import functools
import itertools
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


@functools.lru_cache(maxsize=4096)
def part_shapes(
    sizes: tuple[int, ...], placements: tuple[tuple[Placement, ...], ...], shapes: tuple[tuple[int, ...], ...]
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return the shapes of the parts of several tensors that occur together in any process.

    Args:
        sizes: the sizes of the mesh.
        placements: the placements of each tensor.
        shapes: the shapes of the whole tensors.
    """
    is_cut = [any(isinstance(p[i], Shard) for p in placements) for i in range(len(sizes))]
    places = itertools.product(*(range(n if cut else 1) for n, cut in zip(sizes, is_cut, strict=True)))
    pairs = tuple(zip(placements, shapes, strict=True))
    return tuple({tuple(_cut(sizes, place, p, shape) for p, shape in pairs): None for place in places})


def _cut(
    sizes: tuple[int, ...], place: tuple[int, ...], placements: tuple[Placement, ...], shape: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the shape of the part of the process at a place of the mesh."""
    found = list(shape)
    for i in in_order(placements):
        placement = placements[i]
        if isinstance(placement, Shard):
            size = found[placement.dim]
            found[placement.dim] = Shard.local_shard_size_and_offset(size, sizes[i], place[i])[0]
    return tuple(found)


def local_shape(mesh: DeviceMesh, placements: tuple[Placement, ...], shape: tuple[int, ...]) -> list[int]:
    """Return the shape of this process's part of a tensor."""
    return list(_cut(tuple(mesh.shape), coordinate(mesh), placements, shape))
