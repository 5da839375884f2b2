"""Collectives of one kind that are sent together."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._groups import default_group
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import AllgatherOptions, AllreduceOptions, ReduceScatterOptions
from flambeau.distributed._work import Work

# Up to this many bytes, the latency of several operations costs more than copying their tensors into one.
_MERGED_BYTES = 1 << 18


@dataclass(frozen=True)
class _Call:
    """A collective that has not been started; its arguments are checked."""

    name: str
    output: Tensor
    input: Tensor
    reduction: Any


class _State(threading.local):
    def __init__(self) -> None:
        self.open: dict[ProcessGroup, list[_Call]] = {}


_state = _State()


def takes(name: str, group: ProcessGroup, output: Tensor, input: Tensor, reduction: Any) -> bool:
    """Keep a collective until the end of the block of this thread and group; False without such a block."""
    calls = _state.open.get(group)
    if calls is None:
        return False
    if calls and (calls[0].name, calls[0].reduction) != (name, reduction):
        raise RuntimeError(
            f"{name}: expected calls of one function and reduction within _coalescing_manager, got "
            f"{calls[0].name} and {name}"
        )
    calls.append(_Call(name, output, input, reduction))
    return True


class CoalescingManager:
    """The operations of one block of `coalescing_manager`."""

    def __init__(self) -> None:
        self.works: list[tuple[Work, Callable[[], None] | None]] = []

    def append(self, work: Work | None = None) -> None:
        """Add an operation that `wait` waits for."""
        if work is not None:
            self.works.append((work, None))

    def wait(self) -> None:
        """Wait for all operations of the block."""
        works, self.works = self.works, []
        for work, finish in works:
            work.wait()
            if finish is not None:
                finish()


def _started(group: ProcessGroup, call: _Call) -> Work:
    if call.name == "all_reduce":
        return group.allreduce([call.output], AllreduceOptions(call.reduction))
    if call.name == "all_gather_into_tensor":
        return group._allgather_base(call.output, call.input, AllgatherOptions())
    return group._reduce_scatter_base(call.output, call.input, ReduceScatterOptions(call.reduction))


def _merged(group: ProcessGroup, calls: list[_Call]) -> tuple[_Call, Callable[[], None]]:
    """Return one collective in place of several, and what copies its result to their outputs."""
    parts = group.size() if calls[0].name == "reduce_scatter_tensor" else 1
    with flambeau.no_grad():
        source = flambeau.cat([c.input.detach().reshape(parts, -1) for c in calls], 1).reshape(-1)
    rows = group.size() if calls[0].name == "all_gather_into_tensor" else 1
    sizes = [c.output.numel() // rows for c in calls]
    in_place = calls[0].name == "all_reduce"
    target = source if in_place else flambeau.empty(sum(sizes) * rows, dtype=source.dtype)

    def finish() -> None:
        with flambeau.no_grad():
            for call, part in zip(calls, target.view(rows, -1).split(sizes, 1), strict=True):
                call.output.detach().copy_(part.reshape(call.output.shape))

    return _Call(calls[0].name, target, source, calls[0].reduction), finish


def _flush(group: ProcessGroup, calls: list[_Call], manager: CoalescingManager) -> None:
    size = sum(c.input.numel() * c.input.element_size() for c in calls)
    dtypes = {c.input.dtype for c in calls}
    if len(calls) > 1 and size <= _MERGED_BYTES and len(dtypes) == 1:
        call, finish = _merged(group, calls)
        manager.works.append((_started(group, call), finish))
    else:
        manager.works += [(_started(group, call), None) for call in calls]


@contextlib.contextmanager
def coalescing_manager(
    group: ProcessGroup | None = None, device: Any = None, async_ops: bool = False
) -> Iterator[CoalescingManager]:
    """Send the collectives of a block together, when it ends.

    Within the block, `all_reduce`, `all_gather_into_tensor` and `reduce_scatter_tensor` of this thread and
    group only note their tensors, and return None. A block has calls of one of these functions. Small tensors
    of one dtype are sent as one. If the block raises, nothing is sent.

    Args:
        group: the processes; None: all.
        device: no effect.
        async_ops: whether the caller waits, by ``wait()`` of the yielded manager.
    Yields: the manager.
    Raises: RuntimeError for calls of several functions or reductions, and for a block within a block.
    """
    found = default_group() if group is None else group
    if found in _state.open:
        raise RuntimeError(
            "distributed: expected one block of _coalescing_manager at a time for a group, got a second one"
        )
    manager = CoalescingManager()
    calls = _state.open[found] = []
    try:
        yield manager
    finally:
        del _state.open[found]
    if calls:
        _flush(found, calls, manager)
    if not async_ops:
        manager.wait()
