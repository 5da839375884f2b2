"""DTensors between stages: this rank's part travels with the placements; each stage has its own mesh."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from flambeau import Tensor

Layout = tuple[Any, ...]  # names and sizes of the mesh, placements, sizes and strides of the whole


def is_dtensor(tensor: Any) -> bool:
    """Whether a tensor is a DTensor; a program that has not loaded their module has none."""
    module = sys.modules.get("flambeau.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def layout_of(tensor: Any) -> Layout | None:
    """Return what another stage has to know about a DTensor besides its part; None for a plain tensor.

    Raises: TypeError for sums of parts, and parts of parts.
    """
    if not is_dtensor(tensor):
        return None
    from flambeau.distributed.tensor import Replicate, Shard

    placements = []
    for placement in tensor.placements:
        if type(placement) not in (Replicate, Shard):
            raise TypeError(
                f"PipelineStage: expected DTensors with Shard and Replicate between stages, got {placement}"
            )
        placements.append(placement.dim if type(placement) is Shard else None)
    mesh = tensor.device_mesh
    names, sizes = tuple(mesh.mesh_dim_names or ()), tuple(mesh.mesh.shape)
    return names, sizes, tuple(placements), tuple(tensor.shape), tuple(tensor._spec.tensor_meta.stride)


def local_of(tensor: Any) -> Tensor:
    """Return this rank's part of a DTensor, and a plain tensor itself, without history."""
    local: Tensor = tensor._local_tensor if is_dtensor(tensor) else tensor
    return local.detach()


def assembled(local: Tensor, layout: Sequence[Any] | None, get_mesh: Callable[..., Any] | None) -> Tensor:
    """Return a tensor that has arrived, as the DTensor that it was.

    Args:
        local: this rank's part.
        layout: what `layout_of` gave on the other rank.
        get_mesh: returns this stage's mesh for the names of the dimensions and their sizes.
    Raises: ValueError without `get_mesh`, or if it returns a mesh of other sizes.
    """
    if layout is None:
        return local
    from flambeau.distributed.tensor import DTensor, Replicate, Shard
    from flambeau.distributed.tensor._spec import DTensorSpec, TensorMeta

    names, sizes, dims, shape, strides = layout
    if get_mesh is None:
        raise ValueError("PipelineStage: expected get_mesh for a DTensor from another stage, got None")
    mesh = get_mesh(tuple(names), tuple(sizes))
    own = tuple(mesh.mesh.shape)
    if own != tuple(sizes):
        raise ValueError(f"PipelineStage: expected get_mesh to return a mesh of {tuple(sizes)}, got {own}")
    placements = tuple(Replicate() if dim is None else Shard(dim) for dim in dims)
    spec = DTensorSpec(mesh, placements, TensorMeta(tuple(shape), tuple(strides), local.dtype))
    return DTensor(local, spec)


def placed_like(gradient: Tensor | None, tensor: Any) -> Tensor | None:
    """Return a gradient with the placements of the DTensor that it belongs to, before it is sent."""
    if gradient is None or not is_dtensor(tensor):
        return gradient
    value: Any = gradient
    if not is_dtensor(value):
        raise TypeError(f"PipelineStage: expected a DTensor as a gradient, got {type(value).__name__}")
    moved: Tensor = value.redistribute(placements=tensor.placements)
    return moved


def gradient_like(local: Tensor | None, tensor: Any) -> Tensor | None:
    """Return a gradient that has arrived, as a DTensor with the placements of the result it belongs to."""
    if local is None or not is_dtensor(tensor):
        return local
    from flambeau.distributed.tensor import DTensor

    return DTensor(local, tensor._spec)
