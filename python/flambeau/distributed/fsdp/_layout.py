"""Layout: on which processes the parts of parameters are, and who averages their gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from flambeau.distributed._init import new_group
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._placements import Placement, Replicate, Shard, _StridedShard
from flambeau.distributed.tensor._spec import DTensorSpec


@dataclass(frozen=True)
class Layout:
    """The processes that have parts of a parameter.

    Args:
        mesh: of one dimension, or of two: copies, parts.
        group: the processes that have the parts of one copy.
        copies: the processes that have the same part; None: there is one copy.
    """

    mesh: DeviceMesh
    group: ProcessGroup
    copies: ProcessGroup | None = None

    @property
    def size(self) -> int:
        """The number of parts."""
        return self.group.size()

    @property
    def rank(self) -> int:
        """The number of this process's part."""
        return self.group.rank()

    @property
    def processes(self) -> int:
        """The number of processes whose gradients are added."""
        return self.size * (1 if self.copies is None else self.copies.size())

    def placements(self, dim: int) -> tuple[Placement, ...]:
        """Return the placements of a parameter that is divided along `dim`."""
        return (Shard(dim),) if self.copies is None else (Replicate(), Shard(dim))

    def chunk(self, size: int) -> int:
        """Return the largest size of a part of a dimension."""
        return -(-size // self.size)

    def part(self, size: int) -> tuple[int, int]:
        """Return the size and the begin of this process's part of a dimension."""
        return Shard.local_shard_size_and_offset(size, self.size, self.rank)


def joined(layout: Layout, outer: DTensorSpec, dim: int) -> tuple[DeviceMesh, tuple[Placement, ...]]:
    """Return mesh and placements of a tensor that `outer` divides first, and a layout then along `dim`.

    Raises: RuntimeError if the two meshes are no different dimensions of one mesh with names.
    """
    inside, outside = layout.mesh, outer.mesh
    names = (*(inside.mesh_dim_names or ()), *(outside.mesh_dim_names or ()))
    root = inside._root
    known = root.mesh_dim_names or ()
    is_one = root == outside._root and len(names) == inside.ndim + outside.ndim == len(set(names))
    if not is_one or not set(names) <= set(known):
        raise RuntimeError(
            "fully_shard: expected parameters that are divided along other dimensions of the mesh's parent, "
            f"or plain ones, got a DTensor on {outside} and the mesh {inside}; sharded modules inside a "
            "module come before it"
        )
    divided = [outside.size(i) for i, p in enumerate(outer.placements) if p == Shard(dim)]
    own: list[Placement] = list(layout.placements(dim))
    if divided:
        own[-1] = _StridedShard(dim, split_factor=math.prod(divided))
    placed = dict(zip(names, (*own, *outer.placements), strict=True))
    order = tuple(name for name in known if name in placed)
    return root[order], tuple(placed[name] for name in order)


def layout_of(mesh: Any) -> Layout:
    """Return the layout that a mesh means. Raises: ValueError, AssertionError for a wrong mesh."""
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"fully_shard: expected a DeviceMesh, got {type(mesh).__name__}")
    if mesh.ndim not in (1, 2):
        raise ValueError(
            "fully_shard: fully_shard expects a 1D or 2D DeviceMesh: expected one or two dimensions, got "
            f"{mesh}"
        )
    if mesh.ndim == 1:
        return Layout(mesh, mesh.get_group())
    if mesh.mesh_dim_names is None:
        raise AssertionError(
            "fully_shard: Please init the 2D mesh for HSDP with mesh_dim_names specified: expected names of "
            "the two dimensions, got None"
        )
    return Layout(mesh, mesh.get_group(1), mesh.get_group(0))


def smaller(layout: Layout, size: int) -> Layout:
    """Return a layout of parts on each `size` successive processes; all processes of the mesh call this."""
    group = group_of(layout, size)
    return Layout(DeviceMesh.from_group(group, layout.mesh.device_type), group)


def group_of(layout: Layout, size: int) -> ProcessGroup:
    """Return a group of `size` successive processes with parts, besides that of the layout."""
    made = vars(layout.mesh).setdefault("_fsdp_groups", {})
    if size not in made:
        lines = layout.mesh.mesh.reshape(-1, layout.size).tolist()
        groups = [
            (ranks, new_group(ranks))
            for line in lines
            for ranks in (line[i : i + size] for i in range(0, len(line), size))
        ]
        made[size] = next(g for ranks, g in groups if layout.mesh.get_rank() in ranks)
    found: ProcessGroup = made[size]
    return found
