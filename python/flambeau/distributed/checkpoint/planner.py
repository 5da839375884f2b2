"""Plans: what each rank writes to a checkpoint and reads from it."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from flambeau._C import Tensor
from flambeau._types.size import Size

from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties

__all__ = [
    "BytesIOWriteData",
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]


class WriteItemType(Enum):
    """What an item writes: a whole tensor, a chunk of one, or bytes.

    Example:
        >>> from flambeau.distributed.checkpoint.planner import WriteItemType
        >>> [kind.name for kind in WriteItemType]
        ['TENSOR', 'SHARD', 'BYTE_IO']
    """

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """What an item reads: part of a tensor, or bytes.

    Example:
        >>> from flambeau.distributed.checkpoint.planner import LoadItemType
        >>> [kind.name for kind in LoadItemType]
        ['TENSOR', 'BYTE_IO']
    """

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """Size of a value that is not a tensor.

    Args:
        nbytes: the number of bytes.

    Example:
        >>> from flambeau.distributed.checkpoint.planner import BytesIOWriteData
        >>> BytesIOWriteData(8).nbytes
        8
    """

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """Chunk to write.

    Args:
        chunk: the box.
        properties: of the whole tensor.
        size: of the whole tensor.

    Example:
        >>> import flambeau.distributed.checkpoint as dcp
        >>> planner = dcp.DefaultSavePlanner()
        >>> planner.set_up_planner({"w": flambeau.ones(2, 3)})
        >>> planner.create_local_plan().items[0].tensor_data.size
        flambeau.Size([2, 3])
    """

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size


@dataclass(frozen=True)
class WriteItem:
    """One value or chunk that a rank writes.

    Args:
        index: its name.
        type: a tensor, a chunk or bytes.
        bytes_io_data: the size of a value that is not a tensor, if it is known.
        tensor_data: the chunk of a tensor.

    Example:
        >>> import flambeau.distributed.checkpoint as dcp
        >>> planner = dcp.DefaultSavePlanner()
        >>> planner.set_up_planner({"w": flambeau.ones(2, 3)})
        >>> planner.create_local_plan().items[0].tensor_storage_size()
        24
    """

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """Return the number of bytes of the chunk; None if the item is not a tensor."""
        if self.tensor_data is None:
            return None
        return self.tensor_data.chunk.sizes.numel() * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """One box of values that a rank reads.

    Args:
        type: a tensor or bytes.
        dest_index: the chunk of this process that gets the values.
        dest_offsets: the first element in that chunk.
        storage_index: the chunk of the checkpoint.
        storage_offsets: the first element in that chunk.
        lengths: the sizes of the box.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> planner = dcp.DefaultLoadPlanner()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metadata = dcp.save({"w": flambeau.ones(4)}, checkpoint_id=folder, no_dist=True)
        >>> planner.set_up_planner({"w": flambeau.zeros(4)}, metadata)
        >>> planner.create_local_plan().items[0].lengths
        flambeau.Size([4])
    """

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass(frozen=True)
class SavePlan:
    """What one rank writes.

    Args:
        items: the values and chunks.
        storage_data: what the storage needs.
        planner_data: what the planner needs.
        usable: no effect.

    Example:
        >>> import flambeau.distributed.checkpoint as dcp
        >>> planner = dcp.DefaultSavePlanner()
        >>> planner.set_up_planner({"a": {"b": 1}})
        >>> planner.create_local_plan().planner_data
        {'a.b': ('a', 'b')}
    """

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What one rank reads.

    Args:
        items: the boxes and values.
        storage_data: what the storage needs.
        planner_data: what the planner needs.

    Example:
        >>> from flambeau.distributed.checkpoint import LoadPlan
        >>> LoadPlan([]).items
        []
    """

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(ABC):
    """Decides what each rank writes; one object serves one save at a time.

    Programs derive from `DefaultSavePlanner` to change what is written.

    Example:
        >>> import flambeau.distributed.checkpoint as dcp
        >>> class Halves(dcp.DefaultSavePlanner):
        ...     def transform_object(self, write_item, object):
        ...         is_tensor = isinstance(object, flambeau.Tensor)
        ...         return super().transform_object(write_item, object.half() if is_tensor else object)
        >>> issubclass(Halves, dcp.SavePlanner)
        True
    """

    @abstractmethod
    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take the state dict. Called on each rank first."""

    @abstractmethod
    def create_local_plan(self) -> SavePlan:
        """Return what this rank offers to write."""

    @abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Return the plan of each rank and the metadata. Called on the coordinator."""

    @abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Return the plan of this rank that is carried out."""

    @abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """Return the values of an item."""


class LoadPlanner(ABC):
    """Decides what each rank reads; one object serves one load at a time.

    Programs derive from `DefaultLoadPlanner`, for instance to load under the names of an older model.

    Example:
        >>> import flambeau.distributed.checkpoint as dcp
        >>> class Renaming(dcp.DefaultLoadPlanner):
        ...     def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        ...         renamed = {f"old.{key}": value for key, value in state_dict.items()}
        ...         super().set_up_planner(renamed, metadata, is_coordinator)
        >>> issubclass(Renaming, dcp.LoadPlanner)
        True
    """

    @abstractmethod
    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Take the state dict to fill. Called on each rank first."""

    @abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """Return what this rank reads."""

    @abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plan of each rank. Called on the coordinator."""

    @abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Return the plan of this rank that is carried out."""

    @abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Set a value that is not a tensor."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Return a buffer for the bytes of an item."""
        return io.BytesIO()

    @abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Return the view that gets the values of an item."""

    @abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Called when the view has its values."""
