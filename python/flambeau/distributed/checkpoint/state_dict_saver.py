"""Saves of state dicts by all ranks together."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from flambeau._C import Tensor
from flambeau.distributed._process_group import ProcessGroup

from ._ranks import Ranks
from .default_planner import DefaultSavePlanner
from .filesystem import FileSystemWriter
from .metadata import Metadata
from .planner import SavePlan, SavePlanner
from .stateful import Stateful
from .storage import StorageWriter

__all__ = ["async_save", "save"]


def _states(state_dict: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.state_dict() if isinstance(value, Stateful) and not isinstance(value, Tensor) else value
        for key, value in state_dict.items()
    }


def _writer(name: str, checkpoint_id: Any, given: StorageWriter | None) -> StorageWriter:
    if given is None:
        if checkpoint_id is None:
            raise RuntimeError(f"{name}: expected checkpoint_id or storage_writer, got neither")
        return FileSystemWriter(checkpoint_id)
    given.reset(checkpoint_id)
    return given


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write a state dict whose parts the ranks of a group hold; all of them call it.

    Values that several ranks hold are written once. A directory keeps its previous checkpoint until the new
    one is complete.

    Args:
        state_dict: tensors, plain values, nested dicts of them, and objects with `state_dict()`.
        checkpoint_id: the directory. Default: that of `storage_writer`.
        storage_writer: where to write. Default: `FileSystemWriter(checkpoint_id)`.
        planner: decides which rank writes what. Default: `DefaultSavePlanner()`.
        process_group: the ranks. Default: all.
        no_dist: whether this process saves alone.
        use_collectives: no effect; ranks always exchange their plans.
    Returns: the metadata, on each rank.
    Raises: CheckpointException on all ranks if one fails; RuntimeError if no place is given.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metadata = dcp.save({"w": flambeau.ones(2, 3)}, checkpoint_id=folder, no_dist=True)
        >>> metadata.state_dict_metadata["w"].size
        flambeau.Size([2, 3])
    """
    writer = _writer("save", checkpoint_id, storage_writer)
    return _save(_states(state_dict), writer, planner or DefaultSavePlanner(), Ranks(process_group, no_dist))


def _save(state_dict: dict[str, Any], writer: StorageWriter, planner: SavePlanner, ranks: Ranks) -> Metadata:
    def offer() -> SavePlan:
        planner.set_up_planner(state_dict, writer.storage_meta(), ranks.is_coordinator)
        writer.set_up_storage_writer(ranks.is_coordinator, rank=ranks.rank)
        return writer.prepare_local_plan(planner.create_local_plan())

    offers = ranks.gather("save: plan", offer)

    def assign() -> tuple[list[SavePlan], Metadata]:
        plans, metadata = planner.create_global_plan(offers)
        return writer.prepare_global_plan(plans), metadata

    plans, metadata = ranks.decide("save: plan of all ranks", assign)
    own = plans[ranks.rank]
    results = ranks.gather("save: write", lambda: writer.write_data(planner.finish_plan(own), planner).wait())

    def finish() -> Metadata:
        writer.finish(metadata, results)
        return metadata

    return ranks.decide("save: finish", finish)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value)) if type(value) in (list, tuple) else value
    return value.detach().clone() if isinstance(value, Tensor) else value


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata]:
    """Copy a state dict, and write the copy in a thread.

    The state dict may change after the call. With several ranks the thread uses collectives of the group
    `process_group`, so no other thread may use that group until the future is done.

    Args:
        state_dict: as for `save`.
        checkpoint_id: as for `save`.
        storage_writer: as for `save`.
        planner: as for `save`.
        process_group: as for `save`.
        no_dist: as for `save`.
        use_collectives: no effect.
    Returns: a future of the metadata.
    Raises: RuntimeError if no place is given. The future raises what `save` raises.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     future = dcp.async_save({"step": 1}, checkpoint_id=folder, no_dist=True)
        ...     sorted(future.result().state_dict_metadata)
        ['step']
    """
    writer = _writer("async_save", checkpoint_id, storage_writer)
    states, ranks = _copied(_states(state_dict)), Ranks(process_group, no_dist)
    executor = ThreadPoolExecutor(1)
    try:
        return executor.submit(_save, states, writer, planner or DefaultSavePlanner(), ranks)
    finally:
        executor.shutdown(wait=False)
