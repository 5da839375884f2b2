"""What a storage of checkpoints does."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flambeau.futures import Future

from .metadata import Metadata, MetadataIndex, StorageMeta
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


def call_with(method: Callable[..., Any], *args: Any, **optional: Any) -> Any:
    """Call a method of a storage with those keywords that it takes; programs' classes may take fewer."""
    known = inspect.signature(method).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    return method(*args, **{name: v for name, v in optional.items() if takes_all or name in known})


@dataclass(frozen=True)
class WriteResult:
    """An item that was written, and its place.

    Args:
        index: the name of the item.
        size_in_bytes: the number of bytes.
        storage_data: the place, which the metadata keep.

    Example:
        >>> from flambeau.distributed.checkpoint.metadata import MetadataIndex
        >>> from flambeau.distributed.checkpoint.storage import WriteResult
        >>> WriteResult(MetadataIndex("w"), 8, "file").size_in_bytes
        8
    """

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(ABC):
    """Writes checkpoints. All methods are called on each rank except `prepare_global_plan` and `finish`.

    Example:
        >>> from flambeau.distributed.checkpoint import FileSystemWriter, StorageWriter
        >>> issubclass(FileSystemWriter, StorageWriter)
        True
    """

    @abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a save; an identifier replaces the one from before."""

    @abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Say whether this rank is the coordinator."""

    @abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Return the plan with data for this rank."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Return the plans of all ranks with data for them. Called on the coordinator."""

    @abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the items of this rank."""

    @abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Make the checkpoint valid. Called on the coordinator after all ranks have written."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this storage can write to the identifier."""

    def storage_meta(self) -> StorageMeta | None:
        """Return facts that the metadata keep."""
        return None


class StorageReader(ABC):
    """Reads checkpoints. `read_metadata` and `prepare_global_plan` are called on one rank only.

    Example:
        >>> from flambeau.distributed.checkpoint import FileSystemReader, StorageReader
        >>> issubclass(FileSystemReader, StorageReader)
        True
    """

    @abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a load; an identifier replaces the one from before."""

    @abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return what the checkpoint holds."""

    @abstractmethod
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Take the metadata."""

    @abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan with data for this rank."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans of all ranks with data for them. Called on the coordinator."""

    @abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read the items of this rank into what the planner gives."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this storage can read from the identifier."""
