"""A group that records its operations and, with TORCH_DISTRIBUTED_DEBUG=DETAIL, compares them between ranks.

Each rank puts what it is about to do into the group's store and reads what the others put there, so that an
operation that would hang or mix up data raises on all ranks before anything is sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from flambeau import Tensor
from flambeau.distributed import _job
from flambeau.distributed._debug import DebugLevel, get_debug_level
from flambeau.distributed._engine_group import EngineGroup
from flambeau.distributed._errors import DistBackendError, DistStoreError
from flambeau.distributed._flight_recorder import Entry, call_site, capacity, frames, recorder
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
    ReduceOp,
)
from flambeau.distributed._work import Work

_SLICE = timedelta(seconds=0.2)  # between looks at which processes have died


def is_wanted() -> bool:
    """Whether groups that are made now record or compare."""
    return get_debug_level() is DebugLevel.DETAIL or bool(capacity())


def _described(tensors: Sequence[Tensor]) -> list[tuple[list[int], str]]:
    return [(list(t.shape), str(t.dtype).partition(".")[2]) for t in tensors]


def _text(name: str, tensors: list[tuple[list[int], str]], further: dict[str, Any]) -> str:
    shown = [f"{dtype}{shape}" for shape, dtype in tensors] + [f"{k}={v}" for k, v in further.items()]
    return f"{name}({', '.join(shown)})"


def _reduction(opts: Any) -> str:
    op = opts.reduceOp
    return op.name if isinstance(op, ReduceOp) else "PREMUL_SUM"


class WatchedGroup(EngineGroup):
    """Processes that communicate by the engine, watched.

    Args: As for `EngineGroup`.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._compares = get_debug_level() is DebugLevel.DETAIL and self._communicator is not None
        self._recorder = recorder(create=True)
        self._collectives = self._operations = 0

    def _watched(
        self,
        name: str,
        tensors: Sequence[Tensor],
        start: Callable[[], Work],
        shapes_match: bool = True,
        compared: bool = True,
        **further: Any,
    ) -> Work:
        """Record an operation, compare it with those of the other ranks, and start it."""
        stack = frames()
        shown = _described(tensors)
        self._operations += 1
        entry = Entry(self.group_name, self._operations, name, shown, stack)
        if self._recorder is not None:
            self._recorder.add(entry)
        try:
            if self._compares and compared:
                self._collectives += 1
                same = shown if shapes_match else [([], dtype) for _, dtype in shown]
                self._compare([name, same, further], f"{_text(name, shown, further)} at {call_site(stack)}")
            entry.work = start()
        except Exception as error:
            entry.error = str(error)
            raise
        return entry.work

    # --- comparison --------------------------------------------------------------------------------

    def _compare(self, facts: list[Any], text: str) -> None:
        """Raise RuntimeError on all ranks unless all are about to do the same."""
        store, number, name = self.store, self._collectives, facts[0]
        assert store is not None  # every group has one
        store.set(self._key(number, self._rank), json.dumps([facts, text]))
        self._await_others(number, name, text)
        found = [json.loads(v) for v in store.multi_get([self._key(number, r) for r in range(self._size)])]
        store.delete_key(self._key(number - 2, self._rank))  # all ranks have read it: they put the last one
        if any(theirs != found[0][0] for theirs, _ in found):
            calls = "; ".join(f"rank {rank}: {theirs}" for rank, (_, theirs) in enumerate(found))
            raise RuntimeError(
                f"{name}: expected the same collective in all ranks of group {self.group_name!r}, got as "
                f"number {number} {calls}: Detected mismatch between collectives on ranks"
            )

    def _key(self, number: int, rank: int) -> str:
        return f"collective/{number}/{rank}"

    def _await_others(self, number: int, name: str, text: str) -> None:
        store, job = self.store, _job.current()
        assert store is not None
        assert job is not None  # the group has several processes
        until = time.monotonic() + self.default_timeout.total_seconds()
        waiting = [rank for rank in range(self._size) if rank != self._rank]
        while waiting:
            try:
                store.wait([self._key(number, waiting[0])], _SLICE)
                waiting.pop(0)
                continue
            except DistStoreError:
                pass
            waiting = [rank for rank in waiting if not store.check([self._key(number, rank)])]
            gone = job.watch.gone if job.watch is not None else {}
            for rank in waiting:
                if self.global_ranks[rank] in gone:
                    missing = f"rank {rank}, which {gone[self.global_ranks[rank]]}"
                    raise DistBackendError(f"{name}: expected an answer of {missing}, got none")
            if waiting and time.monotonic() > until:
                raise DistBackendError(
                    f"{name}: timed out after {int(self.default_timeout.total_seconds() * 1000)}ms: expected "
                    f"all ranks in collective number {number}, got {text} in rank {self._rank} and "
                    f"{'; '.join(self._last_call(rank, number - 1) for rank in waiting)}"
                )

    def _last_call(self, rank: int, number: int) -> str:
        assert self.store is not None
        key = self._key(number, rank)
        last = json.loads(self.store.get(key))[1] if self.store.check([key]) else "none"
        return f"nothing in rank {rank}, whose last one was {last}"

    # --- the operations ----------------------------------------------------------------------------

    def allreduce(self, tensors: Any, opts: Any = ALLREDUCE) -> Work:
        """Reduce a tensor over all processes; each has the result."""
        start = super().allreduce
        return self._watched("all_reduce", tensors, lambda: start(tensors, opts), op=_reduction(opts))

    def reduce(self, tensors: Any, opts: Any = REDUCE) -> Work:
        """Reduce a tensor over all processes; one has the result."""
        start = super().reduce
        facts = {"op": _reduction(opts), "root": opts.rootRank}
        return self._watched("reduce", tensors, lambda: start(tensors, opts), **facts)

    def _reduce_scatter_base(self, output: Any, input: Any, opts: Any = REDUCESCATTER) -> Work:
        start = super()._reduce_scatter_base
        facts = {"elements": output.numel(), "op": _reduction(opts)}
        return self._watched(
            "reduce_scatter_tensor", [input], lambda: start(output, input, opts), shapes_match=False, **facts
        )

    def broadcast(self, tensors: Any, opts: Any = BROADCAST) -> Work:
        """Copy a tensor of one process to all."""
        start = super().broadcast
        return self._watched("broadcast", tensors, lambda: start(tensors, opts), root=opts.rootRank)

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = ALLGATHER) -> Work:
        """Copy the tensors of all processes to all."""
        start = super().allgather
        (outputs,) = output_tensors
        sizes = [t.numel() for t in outputs]
        return self._watched(
            "all_gather",
            input_tensors,
            lambda: start(output_tensors, input_tensors, opts),
            shapes_match=False,
            elements=sizes,
        )

    def _allgather_base(self, output: Any, input: Any, opts: Any = ALLGATHER) -> Work:
        start = super()._allgather_base
        return self._watched("all_gather_into_tensor", [input], lambda: start(output, input, opts))

    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = GATHER) -> Work:
        """Copy the tensors of all processes to one."""
        start = super().gather
        return self._watched(
            "gather", input_tensors, lambda: start(output_tensors, input_tensors, opts), root=opts.rootRank
        )

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = SCATTER) -> Work:
        """Copy one tensor of one process to each."""
        start = super().scatter
        return self._watched(
            "scatter", output_tensors, lambda: start(output_tensors, input_tensors, opts), root=opts.rootRank
        )

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = ALLTOALL) -> Work:
        """Copy one tensor of each process to each."""
        start = super().alltoall
        return self._watched(
            "all_to_all",
            input_tensors,
            lambda: start(output_tensors, input_tensors, opts),
            shapes_match=False,
        )

    def alltoall_base(self, output: Any, input: Any, received: Any, sent: Any, opts: Any = ALLTOALL) -> Work:
        """Copy one part of the tensor of each process to each."""
        start = super().alltoall_base
        return self._watched(
            "all_to_all_single",
            [input],
            lambda: start(output, input, received, sent, opts),
            shapes_match=False,
        )

    def barrier(self, opts: Any = BARRIER) -> Work:
        """Wait for all processes."""
        start = super().barrier
        return self._watched("barrier", [], lambda: start(opts))

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        """Send a tensor to a process of the group."""
        start = super().send
        return self._watched("send", tensors, lambda: start(tensors, dst, tag), compared=False, to=dst)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        """Receive a tensor from a process of the group."""
        start = super().recv
        return self._watched("recv", tensors, lambda: start(tensors, src, tag), compared=False, source=src)
