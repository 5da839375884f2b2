"""What a checkpoint holds: the sizes of its tensors, their chunks, and the place of each in the files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._types.size import Size

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


STATE_DICT_TYPE = dict[str, Any]


class _MEM_FORMAT_ENCODING(Enum):
    """Memory formats as numbers of the format."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


@dataclass
class ChunkStorageMetadata:
    """Part of a tensor: a box.

    Args:
        offsets: the indices of its first element.
        sizes: its sizes.

    Example:
        >>> from flambeau.distributed.checkpoint.metadata import ChunkStorageMetadata
        >>> ChunkStorageMetadata(flambeau.Size([4, 0]), flambeau.Size([2, 3])).sizes
        flambeau.Size([2, 3])
    """

    offsets: Size
    sizes: Size


@dataclass
class TensorProperties:
    """Facts about a tensor besides its sizes.

    Args:
        dtype: of the elements. Default: the default dtype.
        layout: always strided.
        requires_grad: whether the tensor required gradients.
        memory_format: always contiguous, as the values in the files are.
        pin_memory: whether the memory was pinned.

    Example:
        >>> from flambeau.distributed.checkpoint.metadata import TensorProperties
        >>> TensorProperties.create_from_tensor(flambeau.ones(2, dtype=flambeau.int8)).dtype
        flambeau.int8
    """

    dtype: Any = field(default_factory=lambda: _C.get_default_dtype())
    layout: Any = _C.strided
    requires_grad: bool = False
    memory_format: Any = _C.contiguous_format
    pin_memory: bool = False

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> TensorProperties:
        """Return the properties of a tensor."""
        return TensorProperties(dtype=tensor.dtype, layout=tensor.layout, requires_grad=tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A whole tensor in the files.

    Args:
        properties: facts besides the sizes.
        size: the sizes.
        chunks: the parts that the files hold, which fill the tensor once.

    Example:
        >>> from flambeau.distributed.checkpoint.metadata import TensorProperties, TensorStorageMetadata
        >>> TensorStorageMetadata(TensorProperties(), flambeau.Size([2]), []).size.numel()
        2
    """

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A value that is not a tensor.

    Example:
        >>> from flambeau.distributed.checkpoint.metadata import BytesStorageMetadata
        >>> BytesStorageMetadata()
        BytesStorageMetadata()
    """


@dataclass(frozen=True)
class MetadataIndex:
    """Name of a value, or of a chunk of a tensor.

    Args:
        fqn: the key in the flat state dict.
        offset: the first element of a chunk; None: a value that is not a tensor.
        index: where the chunk is likely to be in the list of chunks; equality ignores it.

    Example:
        >>> from flambeau.distributed.checkpoint.metadata import MetadataIndex
        >>> MetadataIndex("w", [2, 0], 1) == MetadataIndex("w", [2, 0])
        True
    """

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "offset", None if offset is None else Size(offset))
        object.__setattr__(self, "index", index)


@dataclass
class StorageMeta:
    """Facts that a storage gives.

    Args:
        checkpoint_id: where the checkpoint was written.
        save_id: identifies the save.
        load_id: identifies a load.
        modules: modules that a reader needs.

    Example:
        >>> from flambeau.distributed.checkpoint.metadata import StorageMeta
        >>> StorageMeta(save_id="first").save_id
        'first'
    """

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """Contents of a checkpoint.

    Args:
        state_dict_metadata: what each key of the flat state dict is.
        planner_data: the path of each key in the nested state dict.
        storage_data: the place of each value and chunk.
        storage_meta: facts from the storage.
        version: of the format.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metadata = dcp.save({"a": {"b": 1}}, checkpoint_id=folder, no_dist=True)
        >>> metadata.planner_data
        {'a.b': ('a', 'b')}
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None
