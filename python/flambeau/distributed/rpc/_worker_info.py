"""The name and the number of a worker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, init=False)
class WorkerInfo:
    """The name and the number of a worker.

    Args:
        name: the name that the worker gave `init_rpc`.
        id: its rank.

    Example:
        >>> flambeau.distributed.rpc.WorkerInfo("trainer", 1)
        WorkerInfo(id=1, name=trainer)
    """

    name: str
    id: int

    def __init__(self, name: str, id: int) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "id", id)

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"


WorkerInfo.__module__ = "flambeau.distributed.rpc"
