"""The norm of all elements of several distributed tensors, with one reduction per kind of placements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed import _functional_collectives as functional
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor._placements import Partial, Replicate, Shard
from flambeau.distributed.tensor._spec import DTensorSpec, TensorMeta


def total_norm(tensors: Sequence[Tensor], order: float) -> Tensor:
    """Return the norm of all elements of several tensors, some of them distributed.

    Args:
        tensors: the tensors; plain ones are equal in all processes.
        order: a positive number, or inf.
    Returns: a replicated `DTensor` if there is one mesh; a plain tensor if there are several.
    """
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        kind, part = _part(tensor)
        norm = part.norm(order) if part.numel() else part.new_zeros(())
        kinds.setdefault(kind, []).append(norm)
    totals = [_joined(kind, flambeau.stack(norms).norm(order), order) for kind, norms in kinds.items()]
    total = flambeau.stack(totals).norm(order)
    meshes = {kind[0] for kind in kinds if kind is not None}
    if len(meshes) != 1:
        return total
    mesh = meshes.pop()
    return DTensor(total, DTensorSpec(mesh, (Replicate(),) * mesh.ndim, TensorMeta((), (), total.dtype)))


def _part(tensor: Any) -> tuple[tuple[DeviceMesh, tuple[int, ...]] | None, Tensor]:
    """Return where other parts of a tensor are, as dimensions of its mesh, and this process's part."""
    if not isinstance(tensor, DTensor):
        return None, tensor
    placements = [Replicate() if isinstance(p, Partial) else p for p in tensor.placements]
    moved = tensor.redistribute(placements=placements)
    dims = tuple(i for i, placement in enumerate(placements) if isinstance(placement, Shard))
    return (tensor.device_mesh, dims), moved._local_tensor


def _joined(kind: tuple[DeviceMesh, tuple[int, ...]] | None, norm: Tensor, order: float) -> Tensor:
    """Return the norm of the parts of all processes."""
    if kind is None or not kind[1]:
        return norm
    mesh, dims = kind
    # Powers of numbers of a half type would overflow.
    value = norm.to(flambeau.promote_types(norm.dtype, flambeau.float32))
    value = value if math.isinf(order) else value**order
    for dim in dims:
        operation = "max" if math.isinf(order) else "sum"
        value = functional.wait_tensor(functional.all_reduce(value, operation, (mesh, dim)))
    value = value if math.isinf(order) else value ** (1.0 / order)
    return value.to(norm.dtype)
