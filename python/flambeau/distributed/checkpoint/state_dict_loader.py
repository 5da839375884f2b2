"""Loads of state dicts by all ranks together."""

from __future__ import annotations

import os
from typing import Any

from flambeau.distributed._process_group import ProcessGroup

from ._ranks import Ranks
from .default_planner import DefaultLoadPlanner
from .filesystem import FileSystemReader
from .planner import LoadPlan, LoadPlanner
from .stateful import stateful_keys, with_states
from .storage import StorageReader, call_with

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
) -> None:
    """Read a checkpoint into the tensors of a state dict; all ranks of the group call it.

    Each rank reads what its tensors need, whatever number of ranks has written the checkpoint. Keys that only
    the checkpoint has are not read.

    Args:
        state_dict: tensors that get the values in place, other values that are replaced, and objects with
            `state_dict()` and `load_state_dict()`.
        checkpoint_id: the directory. Default: that of `storage_reader`.
        storage_reader: where to read. Default: `FileSystemReader(checkpoint_id)`.
        planner: decides which rank reads what. Default: `DefaultLoadPlanner()`.
        process_group: the ranks. Default: all.
        no_dist: whether this process loads alone.
    Returns: None.
    Raises: CheckpointException on all ranks if one fails: the checkpoint lacks a key, a size differs, a file
        is damaged. RuntimeError if no place is given. What an object raises when it is asked for its state.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> state = {"w": flambeau.zeros(2), "step": 0}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = dcp.save({"w": flambeau.ones(2), "step": 7}, checkpoint_id=folder, no_dist=True)
        ...     dcp.load(state, checkpoint_id=folder, no_dist=True)
        >>> state
        {'w': tensor([1., 1.]), 'step': 7}
    """
    if storage_reader is None:
        if checkpoint_id is None:
            raise RuntimeError("load: expected checkpoint_id or storage_reader, got neither")
        storage_reader = FileSystemReader(checkpoint_id)
    else:
        storage_reader.reset(checkpoint_id)
    ranks = Ranks(process_group, no_dist)
    states = ranks.together("load: states of objects", lambda: with_states(state_dict))
    _load(states, storage_reader, planner or DefaultLoadPlanner(), ranks)
    objects = stateful_keys(state_dict)
    for key in objects:
        state_dict[key].load_state_dict(states[key])
    state_dict.update({key: value for key, value in states.items() if key not in objects})


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """Read a checkpoint into a state dict, whose objects are not asked for their states; see `load`.

    Args:
        state_dict: tensors that get the values in place, and other values that are replaced.
        storage_reader: where to read.
        process_group: the ranks. Default: all.
        coordinator_rank: the rank in the group that reads the metadata.
        no_dist: whether this process loads alone.
        planner: decides which rank reads what. Default: `DefaultLoadPlanner()`.
    Returns: None.
    Raises: CheckpointException on all ranks if one fails.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> state = {"step": 0}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = dcp.save({"step": 7}, checkpoint_id=folder, no_dist=True)
        ...     dcp.load_state_dict(state, dcp.FileSystemReader(folder), no_dist=True)
        >>> state
        {'step': 7}
    """
    storage_reader.reset()
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def _load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    ranks = Ranks(process_group, no_dist, coordinator_rank)
    _load(state_dict, storage_reader, planner or DefaultLoadPlanner(), ranks)


def _load(state_dict: dict[str, Any], reader: StorageReader, planner: LoadPlanner, ranks: Ranks) -> None:
    metadata = ranks.decide("load: metadata", reader.read_metadata)

    def ask() -> LoadPlan:
        planner.set_up_planner(state_dict, metadata, ranks.is_coordinator)
        call_with(reader.set_up_storage_reader, metadata, ranks.is_coordinator, rank=ranks.rank)
        return reader.prepare_local_plan(planner.create_local_plan())

    wanted = ranks.gather("load: plan", ask)
    plans = ranks.decide(
        "load: plan of all ranks", lambda: reader.prepare_global_plan(planner.create_global_plan(wanted))
    )
    own = plans[ranks.rank]
    ranks.gather("load: read", lambda: reader.read_data(planner.finish_plan(own), planner).wait())
