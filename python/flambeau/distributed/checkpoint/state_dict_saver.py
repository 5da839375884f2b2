"""Saves of state dicts by all ranks together."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any
from weakref import WeakKeyDictionary

from flambeau._C import Tensor
from flambeau.distributed._groups import default_group, is_initialized
from flambeau.distributed._init import new_group
from flambeau.distributed._process_group import ProcessGroup

from ._ranks import Ranks, attempt
from .default_planner import DefaultSavePlanner
from .filesystem import FileSystemWriter
from .metadata import Metadata
from .planner import SavePlan, SavePlanner
from .stateful import with_states
from .storage import StorageWriter, call_with

__all__ = ["async_save", "save", "save_state_dict"]


def _check_place(name: str, checkpoint_id: Any, writer: StorageWriter | None) -> None:
    if writer is None and checkpoint_id is None:
        raise RuntimeError(f"{name}: expected checkpoint_id or storage_writer, got neither")


def _writer(checkpoint_id: Any, given: StorageWriter | None) -> StorageWriter:
    if given is None:
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
    one is complete. Saves that `async_save` has begun are completed first.

    Args:
        state_dict: tensors, plain values, nested dicts of them, and objects with `state_dict()`.
        checkpoint_id: the directory. Default: that of `storage_writer`.
        storage_writer: where to write. Default: `FileSystemWriter(checkpoint_id)`.
        planner: decides which rank writes what. Default: `DefaultSavePlanner()`.
        process_group: the ranks. Default: all.
        no_dist: whether this process saves alone.
        use_collectives: no effect; ranks always exchange their plans.
    Returns: the metadata, on each rank.
    Raises: CheckpointException on all ranks if one fails; RuntimeError if no place is given; what an object
        raises when it is asked for its state.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metadata = dcp.save({"w": flambeau.ones(2, 3)}, checkpoint_id=folder, no_dist=True)
        >>> metadata.state_dict_metadata["w"].size
        flambeau.Size([2, 3])
    """
    _check_place("save", checkpoint_id, storage_writer)
    _saves.wait()
    ranks = Ranks(process_group, no_dist)

    def begin() -> tuple[dict[str, Any], StorageWriter]:
        writer = _writer(checkpoint_id, storage_writer)
        return with_states(state_dict), writer

    states, writer = ranks.together("save: states of objects", begin)
    return _save(states, writer, planner or DefaultSavePlanner(), ranks)


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: StorageWriter,
    process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """Write a state dict whose objects are not asked for their states; see `save`.

    Args:
        state_dict: tensors, plain values, and nested dicts of them.
        storage_writer: where to write.
        process_group: the ranks. Default: all.
        coordinator_rank: the rank in the group that completes the checkpoint.
        no_dist: whether this process saves alone.
        planner: decides which rank writes what. Default: `DefaultSavePlanner()`.
    Returns: the metadata, on each rank.
    Raises: CheckpointException on all ranks if one fails.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metadata = dcp.save_state_dict({"n": 1}, dcp.FileSystemWriter(folder), no_dist=True)
        >>> sorted(metadata.state_dict_metadata)
        ['n']
    """
    _saves.wait()
    storage_writer.reset()
    ranks = Ranks(process_group, no_dist, coordinator_rank)
    return _save(state_dict, storage_writer, planner or DefaultSavePlanner(), ranks)


def _save(state_dict: dict[str, Any], writer: StorageWriter, planner: SavePlanner, ranks: Ranks) -> Metadata:
    def offer() -> SavePlan:
        planner.set_up_planner(state_dict, writer.storage_meta(), ranks.is_coordinator)
        call_with(writer.set_up_storage_writer, ranks.is_coordinator, rank=ranks.rank)
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
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    return copy.deepcopy(value)


class _Saves:
    """The saves that `async_save` has begun: they run one after another, in the order of the calls.

    With the default group they use a group of their own, so that the program can go on using the default one.
    """

    def __init__(self) -> None:
        self.last: Future[Any] | None = None
        self.groups: WeakKeyDictionary[ProcessGroup, ProcessGroup] = WeakKeyDictionary()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Do not wait in a child for threads that only its parent has."""
        self.last = None

    def wait(self) -> None:
        """Wait until none runs; their futures say whether they failed."""
        if self.last is not None:
            wait([self.last])

    def group_for(self, given: ProcessGroup | None, no_dist: bool) -> ProcessGroup | None:
        """Return the group whose ranks save."""
        if no_dist or given is not None or not is_initialized():
            return given
        default = default_group()
        if default not in self.groups:
            self.groups[default] = new_group()
        return self.groups[default]

    def begin(self, save: Callable[[], Metadata]) -> Future[Metadata]:
        """Run a save in a thread after the one before."""
        before = [] if self.last is None else [self.last]

        def run() -> Metadata:
            wait(before)
            before.clear()  # the futures before would be kept otherwise
            return save()

        executor = ThreadPoolExecutor(1, thread_name_prefix="async_save")
        try:
            self.last = executor.submit(run)
        finally:
            executor.shutdown(wait=False)
        return self.last


_saves = _Saves()


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

    The state dict may change after the call. Saves run in the order of the calls, also on the way out of the
    interpreter. With several ranks, wait for the future before `destroy_process_group`. The thread uses
    collectives of `process_group`, so the program may use this group only after the future is done; without
    `process_group`, a group of its own is made and kept for later calls.

    Args:
        state_dict: as for `save`.
        checkpoint_id: as for `save`.
        storage_writer: as for `save`.
        planner: as for `save`.
        process_group: the ranks. Default: all.
        no_dist: as for `save`.
        use_collectives: no effect.
    Returns: a future of the metadata.
    Raises: RuntimeError if no place is given; what an object raises when it is asked for its state or copied;
        the futures of the other ranks then raise CheckpointException. The future raises what `save` raises.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     future = dcp.async_save({"step": 1}, checkpoint_id=folder, no_dist=True)
        ...     sorted(future.result().state_dict_metadata)
        ['step']
    """
    _check_place("async_save", checkpoint_id, storage_writer)
    ranks = Ranks(_saves.group_for(process_group, no_dist), no_dist)
    states, failure = attempt(lambda: _copied(with_states(state_dict)))

    def begin() -> StorageWriter:
        if failure is not None:
            raise failure[0]
        return _writer(checkpoint_id, storage_writer)

    def run() -> Metadata:
        writer = ranks.together("async_save: copy", begin)
        return _save(states or {}, writer, planner or DefaultSavePlanner(), ranks)

    future = _saves.begin(run)  # after a failure, its thread tells the other ranks
    if failure is not None:
        raise failure[0]
    return future
