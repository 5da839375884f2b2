"""Checkpoints of several ranks as files of `flambeau.save`, and the other way round."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from flambeau import serialization
from flambeau._C import Tensor
from flambeau._types.size import Size
from flambeau.distributed._collectives import broadcast
from flambeau.distributed._groups import get_rank
from flambeau.distributed._objects import broadcast_object_list
from flambeau.futures import Future

from ._chunks import narrowed
from ._nesting import flatten
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner, empty_value
from .filesystem import FileSystemReader
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadItemType, LoadPlan, LoadPlanner
from .state_dict_loader import _load_state_dict
from .state_dict_saver import save
from .storage import StorageReader

__all__ = ["BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Write what a checkpoint holds to one file, which `flambeau.load` and `torch.load` read.

    One process does this, and has the whole state in memory.

    Args:
        dcp_checkpoint_dir: the directory of the checkpoint.
        torch_save_path: the file.
    Returns: None.
    Raises: CheckpointException if there is no checkpoint, or it is damaged.

    Example:
        >>> import os, tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> from flambeau.distributed.checkpoint.format_utils import dcp_to_torch_save
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = dcp.save({"a": {"b": 3}}, checkpoint_id=folder, no_dist=True)
        ...     dcp_to_torch_save(folder, os.path.join(folder, "whole.pt"))
        ...     flambeau.load(os.path.join(folder, "whole.pt"))
        {'a': {'b': 3}}
    """
    state: dict[str, Any] = {}
    reader, planner = FileSystemReader(dcp_checkpoint_dir), _EmptyStateDictLoadPlanner()
    _load_state_dict(state, storage_reader=reader, planner=planner, no_dist=True)
    serialization.save(state, torch_save_path)


def _loaded(name: str, path: str | os.PathLike[str]) -> dict[str, Any]:
    state = serialization.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict):
        raise TypeError(f"{name}: expected a dict in {os.fspath(path)}, got {type(state).__name__}")
    return state


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Write the dict in a file of `flambeau.save` or `torch.save` as a checkpoint.

    One process does this. The file is not trusted: it can give tensors and plain data only.

    Args:
        torch_save_path: the file.
        dcp_checkpoint_dir: the directory of the checkpoint.
    Returns: None.
    Raises: FileNotFoundError if there is no file; TypeError if it holds no dict; UnpicklingError if it refers
        to what is not allowed; CheckpointException if the checkpoint cannot be written.

    Example:
        >>> import os, tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> from flambeau.distributed.checkpoint.format_utils import torch_save_to_dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     flambeau.save({"a": {"b": 3}}, os.path.join(folder, "whole.pt"))
        ...     torch_save_to_dcp(os.path.join(folder, "whole.pt"), folder)
        ...     sorted(dcp.FileSystemReader(folder).read_metadata().state_dict_metadata)
        ['a.b']
    """
    save(_loaded("torch_save_to_dcp", torch_save_path), checkpoint_id=dcp_checkpoint_dir, no_dist=True)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """The planner for `BroadcastingTorchSaveReader`, whose metadata tell the sizes; as `DefaultLoadPlanner`.

    Args:
        flatten_state_dict: whether nested dicts become keys with dots.
        flatten_sharded_tensors: no effect.
        allow_partial_load: whether keys that the file lacks keep their values; False: they are errors.

    Example:
        >>> from flambeau.distributed.checkpoint.format_utils import DynamicMetaLoadPlanner
        >>> DynamicMetaLoadPlanner(allow_partial_load=True).allow_partial_load
        True
    """


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of `flambeau.save` or `torch.save` in rank 0, and sends each rank what its tensors need.

    One whole tensor at a time is in the memory of the other ranks.

    Args:
        checkpoint_id: the file.
        coordinator_rank: the rank that reads; only 0 is possible.

    Raises: ValueError for another `coordinator_rank`.

    Example:
        >>> import os, tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> from flambeau.distributed.checkpoint.format_utils import BroadcastingTorchSaveReader
        >>> state = {"w": flambeau.zeros(2)}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "whole.pt")
        ...     flambeau.save({"w": flambeau.ones(2)}, path)
        ...     dcp.load(state, storage_reader=BroadcastingTorchSaveReader(path), no_dist=True)
        >>> state
        {'w': tensor([1., 1.])}
    """

    def __init__(
        self, checkpoint_id: str | os.PathLike[str] | None = None, coordinator_rank: int = 0
    ) -> None:
        if coordinator_rank != 0:
            raise ValueError(
                f"BroadcastingTorchSaveReader: expected coordinator_rank=0, got {coordinator_rank}"
            )
        self.checkpoint_id = checkpoint_id
        self.coordinator_rank = coordinator_rank
        self.values: dict[str, Any] = {}
        self.metadata: Metadata | None = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a load, from another file if one is given."""
        self.checkpoint_id = self.checkpoint_id if checkpoint_id is None else checkpoint_id
        self.values, self.metadata = {}, None

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Read the file, and return what it holds. Called in rank 0."""
        if self.checkpoint_id is None:
            raise ValueError("BroadcastingTorchSaveReader: expected checkpoint_id, got None")
        self.values, paths = flatten(_loaded("BroadcastingTorchSaveReader", self.checkpoint_id))
        return Metadata({fqn: _described(value) for fqn, value in self.values.items()}, planner_data=paths)

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Take the sizes of the values."""
        self.metadata = metadata

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Tell all ranks which values are sent, in which order."""
        names = list(dict.fromkeys(item.storage_index.fqn for plan in plans for item in plan.items))
        return [replace(plan, storage_data=(names, len(plans) > 1)) for plan in plans]

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Send and receive the values, and copy what this rank needs."""
        names, is_shared = plan.storage_data
        for fqn in names:
            value = self._sent(fqn) if is_shared else self.values[fqn]
            for item in plan.items:
                if item.storage_index.fqn != fqn:
                    continue
                if item.type is LoadItemType.BYTE_IO:
                    data = io.BytesIO()
                    serialization.save(value, data)
                    data.seek(0)
                    planner.load_bytes(item, data)
                else:
                    target = planner.resolve_tensor(item).detach()
                    target.copy_(narrowed(value, item.storage_offsets, item.lengths))
                    planner.commit_tensor(item, target)
        self.values = {}
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _sent(self, fqn: str) -> Any:
        """Return a value of rank 0 in all ranks."""
        assert self.metadata is not None, "read_data: expected set_up_storage_reader first"
        known = self.metadata.state_dict_metadata[fqn]
        is_source = get_rank() == self.coordinator_rank
        if isinstance(known, BytesStorageMetadata):
            box = [self.values[fqn] if is_source else None]
            broadcast_object_list(box, self.coordinator_rank)
            return box[0]
        whole = self.values[fqn].detach().contiguous() if is_source else empty_value(known)
        broadcast(whole, self.coordinator_rank)
        return whole

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a file."""
        return Path(checkpoint_id).is_file()


def _described(value: Any) -> TensorStorageMetadata | BytesStorageMetadata:
    if not isinstance(value, Tensor):
        return BytesStorageMetadata()
    chunk = ChunkStorageMetadata(Size([0] * value.dim()), value.size())
    return TensorStorageMetadata(TensorProperties.create_from_tensor(value), value.size(), [chunk])
