"""The interface of process groups, which backends implement."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from flambeau.distributed._reductions import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BARRIER,
    BROADCAST,
    GATHER,
    REDUCE,
    REDUCESCATTER,
    SCATTER,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ScatterOptions,
)
from flambeau.distributed._store import Store
from flambeau.distributed._work import Work

__all__ = ["ProcessGroup"]


class ProcessGroup:
    """Processes that communicate with each other. `new_group` makes one; backends derive from it.

    A backend overrides the methods that it has; the others raise RuntimeError. Each takes a list of tensors
    and options, and returns a `Work`. ``reduce_scatter`` and the others with lists of lists have one inner
    list per tensor.

    Args:
        rank: this process's rank in the group.
        size: the number of processes.
        *further: the size, where store and rank come first.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> group = dist.group.WORLD
        >>> group.rank(), group.size()
        (0, 1)
        >>> x = flambeau.ones(2)
        >>> group.allreduce([x]).wait()
        True
        >>> dist.destroy_process_group()
    """

    group_name = ""
    group_desc = ""
    backend_name = "undefined"
    global_ranks: tuple[int, ...] = ()
    store: Store | None = None
    default_timeout = timedelta(minutes=30)

    def __init__(self, rank: int = 0, size: int = 1, *further: Any) -> None:
        if not isinstance(rank, int):  # (store, rank, size), as PyTorch's constructor
            self.store, rank, size = rank, size, further[0]
        self._rank, self._size = rank, size

    def rank(self) -> int:
        """Return this process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """Return the number of processes."""
        return self._size

    def name(self) -> str:
        """Return the name of the backend."""
        return self.backend_name

    def getBackendName(self) -> str:
        """Return the name of the backend."""
        return self.name()

    def _lacks(self, method: str) -> Work:
        raise RuntimeError(f"ProcessGroup.{method}: expected a backend that has it, got {self.name()}")

    def allreduce(self, tensors: Any, opts: AllreduceOptions = ALLREDUCE) -> Work:
        """Reduce a tensor over all processes; each has the result."""
        return self._lacks("allreduce")

    def allreduce_coalesced(self, tensors: Any, opts: AllreduceOptions = ALLREDUCE) -> Work:
        """Reduce several tensors over all processes."""
        return self._lacks("allreduce_coalesced")

    def reduce(self, tensors: Any, opts: ReduceOptions = REDUCE) -> Work:
        """Reduce a tensor over all processes; one has the result."""
        return self._lacks("reduce")

    def broadcast(self, tensors: Any, opts: BroadcastOptions = BROADCAST) -> Work:
        """Copy a tensor of one process to all."""
        return self._lacks("broadcast")

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = ALLGATHER) -> Work:
        """Copy the tensors of all processes to all."""
        return self._lacks("allgather")

    def _allgather_base(self, output: Any, input: Any, opts: Any = ALLGATHER) -> Work:
        return self._lacks("_allgather_base")

    def gather(self, output_tensors: Any, input_tensors: Any, opts: GatherOptions = GATHER) -> Work:
        """Copy the tensors of all processes to one."""
        return self._lacks("gather")

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: ScatterOptions = SCATTER) -> Work:
        """Copy one tensor of one process to each."""
        return self._lacks("scatter")

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = REDUCESCATTER) -> Work:
        """Reduce lists of tensors over all processes; each has one of the results."""
        return self._lacks("reduce_scatter")

    def _reduce_scatter_base(self, output: Any, input: Any, opts: Any = REDUCESCATTER) -> Work:
        return self._lacks("_reduce_scatter_base")

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = ALLTOALL) -> Work:
        """Copy one tensor of each process to each."""
        return self._lacks("alltoall")

    def alltoall_base(
        self,
        output: Any,
        input: Any,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        opts: AllToAllOptions = ALLTOALL,
    ) -> Work:
        """Copy one part of the tensor of each process to each."""
        return self._lacks("alltoall_base")

    def barrier(self, opts: BarrierOptions = BARRIER) -> Work:
        """Wait for all processes."""
        return self._lacks("barrier")

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        """Send a tensor to a process of the group."""
        return self._lacks("send")

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        """Receive a tensor from a process of the group."""
        return self._lacks("recv")

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """Receive a tensor from any process of the group."""
        return self._lacks("recv_anysource")


ProcessGroup.__module__ = "flambeau.distributed"
