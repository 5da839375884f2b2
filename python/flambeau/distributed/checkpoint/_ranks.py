"""Steps of a save or a load that all ranks take together; one that fails fails on all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flambeau.distributed._groups import (
    default_group,
    get_global_rank,
    get_rank,
    get_world_size,
    is_initialized,
)
from flambeau.distributed._objects import all_gather_object, broadcast_object_list
from flambeau.distributed._process_group import ProcessGroup

from .api import CheckpointException

Value = TypeVar("Value")


def _portable(error: BaseException) -> BaseException:
    """Return an exception that other processes can unpickle."""
    import pickle

    try:
        pickle.loads(pickle.dumps(error))  # of our own object
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _attempt(call: Callable[[], Value]) -> tuple[Value | None, BaseException | None]:
    try:
        return call(), None
    except Exception as error:
        return None, error


class Ranks:
    """The ranks of a group; the first one coordinates them.

    Args:
        process_group: the group; None: the default one.
        no_dist: whether this process works alone.
    """

    def __init__(self, process_group: ProcessGroup | None, no_dist: bool) -> None:
        self.alone = no_dist or not is_initialized()
        self.group = process_group
        self.rank = 0 if self.alone else get_rank(process_group)
        self.size = 1 if self.alone else get_world_size(process_group)
        self.is_coordinator = self.rank == 0

    def gather(self, step: str, call: Callable[[], Value]) -> list[Value]:
        """Return the result of each rank, on each rank.

        Raises: CheckpointException if the step fails on a rank.
        """
        value, error = _attempt(call)
        if self.alone:
            found: list[Any] = [(value, error)]
        else:
            found = [None] * self.size
            all_gather_object(found, (value, error and _portable(error)), self.group)
        failures = {rank: e for rank, (_, e) in enumerate(found) if e is not None}
        if failures:
            raise CheckpointException(step, failures) from failures.get(self.rank)
        return [value for value, _ in found]

    def decide(self, step: str, call: Callable[[], Value]) -> Value:
        """Return the result of the coordinator on each rank.

        Raises: CheckpointException if the step fails.
        """
        value, error = _attempt(call) if self.is_coordinator else (None, None)
        if not self.alone:
            box = [(value, error and _portable(error))]
            source = get_global_rank(self.group or default_group(), 0)
            broadcast_object_list(box, source, self.group)
            value, error = box[0]
        if error is not None:
            raise CheckpointException(step, {0: error}) from error
        return value  # type: ignore[return-value]
