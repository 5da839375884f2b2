"""Steps of a save or a load that all ranks take together; one that fails fails on all."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from traceback import extract_tb
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

from .api import CheckpointException, Failure

Value = TypeVar("Value")


def _portable(failure: Failure) -> Failure:
    """Return a failure that other processes can unpickle."""
    error, stack = failure
    try:
        pickle.loads(pickle.dumps(error))  # of our own object
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}"), stack
    return failure


def attempt(call: Callable[[], Value]) -> tuple[Value | None, Failure | None]:
    """Return the result of a call or its failure, the other one being None."""
    try:
        return call(), None
    except Exception as error:
        return None, (error, extract_tb(error.__traceback__))


class Ranks:
    """The ranks of a group; one of them coordinates the others.

    Args:
        process_group: the group; None: the default one.
        no_dist: whether this process works alone.
        coordinator: the rank in the group that coordinates.

    Raises: ValueError if this process, or the coordinator, is not in the group.
    """

    def __init__(self, process_group: ProcessGroup | None, no_dist: bool, coordinator: int = 0) -> None:
        self.alone = no_dist or not is_initialized()
        self.group = process_group
        self.rank = 0 if self.alone else get_rank(process_group)
        if self.rank < 0:
            raise ValueError("checkpoint: expected a group that this process is in, got another one")
        self.size = 1 if self.alone else get_world_size(process_group)
        self.coordinator = 0 if self.alone else coordinator
        if not 0 <= self.coordinator < self.size:
            raise ValueError(f"checkpoint: expected coordinator_rank below {self.size}, got {coordinator}")
        self.is_coordinator = self.rank == self.coordinator

    def gather(self, step: str, call: Callable[[], Value]) -> list[Value]:
        """Return the result of each rank, on each rank.

        Raises: CheckpointException if the step fails on a rank.
        """
        value, failure = attempt(call)
        if self.alone:
            found: list[Any] = [(value, failure)]
        else:
            found = [None] * self.size
            all_gather_object(found, (value, failure and _portable(failure)), self.group)
        failures = {rank: f for rank, (_, f) in enumerate(found) if f is not None}
        if failures:
            raise CheckpointException(step, failures) from (failure and failure[0])
        return [value for value, _ in found]

    def together(self, step: str, call: Callable[[], Value]) -> Value:
        """Return the result of this rank; nothing but failures is sent.

        Raises: the exception of this rank; CheckpointException if the step fails on another one.
        """
        value, failure = attempt(call)

        def report() -> None:
            if failure is not None:
                raise failure[0]

        try:
            self.gather(step, report)
        except CheckpointException:
            if failure is not None:
                raise failure[0] from None
            raise
        return value  # type: ignore[return-value]

    def decide(self, step: str, call: Callable[[], Value]) -> Value:
        """Return the result of the coordinator on each rank.

        Raises: CheckpointException if the step fails.
        """
        value, failure = attempt(call) if self.is_coordinator else (None, None)
        if not self.alone:
            box = [(value, failure and _portable(failure))]
            source = get_global_rank(self.group or default_group(), self.coordinator)
            broadcast_object_list(box, source, self.group)
            value, failure = box[0]
        if failure is not None:
            raise CheckpointException(step, {self.coordinator: failure}) from failure[0]
        return value  # type: ignore[return-value]
