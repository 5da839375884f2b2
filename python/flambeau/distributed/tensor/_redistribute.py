"""From one placement to another: which collectives move the parts of a tensor."""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau.distributed import _functional_collectives as functional
from flambeau.distributed.tensor._placements import Partial, Placement, Replicate, Shard, in_order
from flambeau.distributed.tensor._spec import DTensorSpec, coordinate, part, sizes_above


def redistributed(local: Tensor, spec: DTensorSpec, placements: tuple[Placement, ...]) -> Tensor:
    """Return this process's part of a tensor with other placements."""
    changed = _changed(spec.placements, placements)
    if len(changed) == 1:
        scattered = _scattered(local, spec, changed[0], placements[changed[0]])
        if scattered is not None:
            return scattered
    now = spec
    for mesh_dim in (i for i in reversed(in_order(spec.placements)) if i in changed):
        local = _whole(local, now, mesh_dim)
        now = now.placed(_with(now.placements, mesh_dim, Replicate()))
    for mesh_dim in (i for i in in_order(placements) if i in changed):
        local = _divided(local, now, mesh_dim, placements[mesh_dim])
        now = now.placed(_with(now.placements, mesh_dim, placements[mesh_dim]))
    return local


def _with(placements: tuple[Placement, ...], mesh_dim: int, new: Placement) -> tuple[Placement, ...]:
    return (*placements[:mesh_dim], new, *placements[mesh_dim + 1 :])


def _changed(before: tuple[Placement, ...], after: tuple[Placement, ...]) -> list[int]:
    """Return the mesh's dimensions that change, and those that divide what these divide."""
    found = {i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b}
    dims = {p.dim for i in found for p in (before[i], after[i]) if isinstance(p, Shard)}
    inner = set(found)
    for placements in (before, after):
        order = in_order(placements)
        first = min((order.index(i) for i in found), default=0)
        for i in order[first:]:
            placement = placements[i]
            if isinstance(placement, Shard) and placement.dim in dims:
                inner.add(i)
    return sorted(inner)


def _scattered(local: Tensor, spec: DTensorSpec, mesh_dim: int, after: Placement) -> Tensor | None:
    """Reduce and divide in one step, where parts are equal."""
    before, size = spec.placements[mesh_dim], spec.mesh.size(mesh_dim)
    if not (isinstance(before, Partial) and isinstance(after, Shard)) or before.reduce_op not in (
        "sum",
        "avg",
    ):
        return None
    if local.size(after.dim) % size or local.numel() == 0:
        return None
    group = (spec.mesh, mesh_dim)
    result = functional.reduce_scatter_tensor(local, before.reduce_op, after.dim, group)
    return functional.wait_tensor(result)


def _whole(local: Tensor, spec: DTensorSpec, mesh_dim: int) -> Tensor:
    """Return what all processes along a dimension of the mesh have together."""
    placement, group = spec.placements[mesh_dim], (spec.mesh, mesh_dim)
    if isinstance(placement, Partial):
        return functional.wait_tensor(functional.all_reduce(local, placement.reduce_op, group))
    if not isinstance(placement, Shard):
        return local
    dim, count = placement.dim, spec.mesh.size(mesh_dim)
    size = sizes_above(spec, mesh_dim, dim)
    chunk = -(-size // count)
    missing = chunk - local.size(dim)
    if missing:
        rest = list(local.shape)
        rest[dim] = missing
        local = flambeau.cat([local, local.new_zeros(rest)], dim)
    found = functional.wait_tensor(functional.all_gather_tensor(local.contiguous(), dim, group))
    return found if chunk * count == size else found.narrow(dim, 0, size).contiguous()


def _divided(local: Tensor, spec: DTensorSpec, mesh_dim: int, after: Placement) -> Tensor:
    """Return this process's share of a tensor that all processes along a dimension of the mesh have."""
    if isinstance(after, Shard):
        length, begin = part(spec.mesh, mesh_dim, local.size(after.dim))
        return local.narrow(after.dim, begin, length).contiguous()
    if isinstance(after, Partial) and after.reduce_op == "sum":
        return local if coordinate(spec.mesh)[mesh_dim] == 0 else flambeau.zeros_like(local)
    if isinstance(after, Partial) and after.reduce_op == "product":
        return local if coordinate(spec.mesh)[mesh_dim] == 0 else flambeau.ones_like(local)
    return local
