"""The chunks of a tensor that this process holds.

A class of sharded tensors gives its chunks by PyTorch's protocol: `__create_chunk_list__()` and
`__get_tensor_shard__(index)`; for writing it also has `__create_write_items__(fqn, value)`. The chunks of a
DTensor follow from its placements.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from flambeau._C import Tensor, strided
from flambeau._types.size import Size

from .metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties, TensorStorageMetadata
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
    # A part of a part, `_StridedShard`, comes after the part.
    order = sorted(range(len(placements)), key=lambda i: hasattr(placements[i], "split_factor"))
    for i in order:
        placement, count, place = placements[i], mesh_shape[i], coordinate[i]
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


def narrowed(tensor: Tensor, offsets: Iterable[int], lengths: Iterable[int]) -> Tensor:
    """Return the view of a box."""
    for dim, (offset, length) in enumerate(zip(offsets, lengths, strict=True)):
        tensor = tensor.narrow(dim, offset, length)
    return tensor


def overlap(first: ChunkStorageMetadata, second: ChunkStorageMetadata) -> tuple[list[int], list[int]] | None:
    """Return the offsets and lengths of the box that two boxes share; None if they share no element."""
    offsets, lengths = [], []
    boxes = zip(first.offsets, first.sizes, second.offsets, second.sizes, strict=True)
    for begin_a, size_a, begin_b, size_b in boxes:
        begin, end = max(begin_a, begin_b), min(begin_a + size_a, begin_b + size_b)
        if end <= begin:
            return None
        offsets.append(begin)
        lengths.append(end - begin)
    return offsets, lengths


def check_chunks(name: str, fqn: str, whole: TensorStorageMetadata) -> None:
    """Check that the chunks lie in the tensor and fill it without an overlap.

    Raises: ValueError otherwise.
    """
    filled = 0
    for chunk in whole.chunks:
        box = list(zip(chunk.offsets, chunk.sizes, strict=True))
        if len(box) != len(whole.size) or any(o + n > s for (o, n), s in zip(box, whole.size, strict=True)):
            raise ValueError(f"{name}: expected chunks of {fqn!r} within {tuple(whole.size)}, got {chunk}")
        filled += chunk.sizes.numel()
    if filled != whole.size.numel() or _any_overlap(whole.chunks):
        found = [(tuple(c.offsets), tuple(c.sizes)) for c in whole.chunks[:8]]
        raise ValueError(
            f"{name}: expected chunks that fill {fqn!r} of size {tuple(whole.size)} once, "
            f"got {len(whole.chunks)} chunks: {found}"
        )


def _any_overlap(chunks: list[ChunkStorageMetadata]) -> bool:
    if not chunks or not chunks[0].sizes:
        return len(chunks) > 1
    ndim = len(chunks[0].sizes)
    dim = max(range(ndim), key=lambda d: len({c.offsets[d] for c in chunks}))
    ordered = sorted(chunks, key=lambda chunk: chunk.offsets[dim])
    active: list[ChunkStorageMetadata] = []  # those that reach the begin of the next chunk
    for chunk in ordered:
        active = [c for c in active if c.offsets[dim] + c.sizes[dim] > chunk.offsets[dim]]
        if any(overlap(chunk, other) is not None for other in active):
            return True
        active.append(chunk)
    return False
