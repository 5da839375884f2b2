"""The chunks of a tensor that this process holds.

A class of sharded tensors gives its chunks by PyTorch's protocol: `__create_chunk_list__()` and
`__get_tensor_shard__(index)`; for writing it also has `__create_write_items__(fqn, value)`. The chunks of a
DTensor follow from its placements.
"""

from __future__ import annotations

import sys
from typing import Any

from flambeau._C import Tensor, strided
from flambeau._types.size import Size

from .metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from .planner import TensorWriteData, WriteItem, WriteItemType


def is_dtensor(value: Any) -> bool:
    """Whether a value is a DTensor; their module is loaded if there is one."""
    module = sys.modules.get("flambeau.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def box_of(sizes: tuple[int, ...], placements: Any, mesh_shape: Any, coordinate: Any) -> ChunkStorageMetadata:
    """Return the box of a process in a mesh, whose first dimension divides first.

    Raises: ValueError if a placement is neither sharded nor replicated.
    """
    offsets, lengths = [0] * len(sizes), list(sizes)
    for placement, count, place in zip(placements, mesh_shape, coordinate, strict=True):
        if placement.is_replicate():
            continue
        if not placement.is_shard():
            raise ValueError(f"checkpoint: expected a tensor that is sharded or replicated, got {placement}")
        dim = placement.dim
        lengths[dim], start = placement.local_shard_size_and_offset(lengths[dim], count, place)
        offsets[dim] += start
    return ChunkStorageMetadata(Size(offsets), Size(lengths))


def chunks_of(value: Any) -> list[ChunkStorageMetadata]:
    """Return the boxes that this process holds of a tensor."""
    if hasattr(value, "__create_chunk_list__"):
        return list(value.__create_chunk_list__())
    if not is_dtensor(value):
        return [ChunkStorageMetadata(Size([0] * value.dim()), value.size())]
    coordinate = value.device_mesh.get_coordinate()
    if coordinate is None:  # this process is not in the mesh
        return []
    return [box_of(tuple(value.shape), value.placements, value.device_mesh.shape, coordinate)]


def chunk_values(value: Any, index: MetadataIndex) -> Tensor:
    """Return the values of a chunk, which share memory with the tensor."""
    if hasattr(value, "__get_tensor_shard__"):
        return value.__get_tensor_shard__(index)
    if is_dtensor(value):
        return value.to_local().detach()
    return value.detach()


def write_items(fqn: str, value: Any) -> list[WriteItem]:
    """Return the items that write what this process holds of a value."""
    if hasattr(value, "__create_write_items__"):
        return list(value.__create_write_items__(fqn, value))
    if not isinstance(value, Tensor):
        return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)]
    if value.layout is not strided:
        raise NotImplementedError(f"save: expected a strided tensor for {fqn!r}, got {value.layout}")
    kind = WriteItemType.SHARD if is_dtensor(value) else WriteItemType.TENSOR
    properties = TensorProperties.create_from_tensor(value)
    # Where a mesh has more processes than rows, an empty chunk may begin where the chunk of another one does.
    chunks = [c for c in chunks_of(value) if c.sizes.numel() > 0 or value.numel() == 0]
    return [
        WriteItem(
            MetadataIndex(fqn, chunk.offsets),
            kind,
            tensor_data=TensorWriteData(chunk, properties, value.size()),
        )
        for chunk in chunks
    ]
