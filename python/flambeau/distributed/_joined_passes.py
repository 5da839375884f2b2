"""What a process without further inputs does for `DistributedDataParallel` while others train."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.distributed._collectives import all_reduce
from flambeau.distributed._reductions import ReduceOp
from flambeau.distributed.algorithms.join import Join, JoinHook


def _highest(wrapper: Any, values: list[int]) -> list[int]:
    found = flambeau.tensor(values, dtype=flambeau.int32)
    all_reduce(found, ReduceOp.MAX, wrapper.process_group)
    return found.tolist()


def begin_pass(wrapper: Any, syncs: bool, copies: bool) -> tuple[int, int]:
    """Tell the processes without further inputs what a forward pass communicates.

    Args:
        wrapper: the `DistributedDataParallel`.
        syncs: whether backward reduces gradients.
        copies: whether buffers are copied first.
    Returns: the rank whose buffers are copied, and the number of processes that the gradients are divided by.
    """
    size = wrapper.process_group.size()
    if wrapper._join_config is None:
        return 0, size
    work = Join.notify_join_context(wrapper)
    source, _, _ = _highest(wrapper, [wrapper.process_group.rank(), int(syncs), int(copies)])
    if work is None or wrapper._divides_by_initial_size:
        return source, size
    work.wait()
    return source, int(work.result()[0].item())


class DataParallelJoinHook(JoinHook):
    """Takes part in the passes of the other processes, with gradients of zero.

    Args:
        wrapper: the `DistributedDataParallel`.
    """

    def __init__(self, wrapper: Any) -> None:
        self._wrapper = wrapper

    def main_hook(self) -> None:
        """Take part in the collectives of one pass; the parameters get the gradients of the others."""
        wrapper = self._wrapper
        source, syncs, copies = _highest(wrapper, [-1, 0, 0])
        if copies:
            wrapper._copy_buffers(source)
        if syncs:
            wrapper._buckets.take_part(wrapper.find_unused_parameters or wrapper.static_graph)

    def post_hook(self, is_last_joiner: bool) -> None:
        """Copy the model of a process with the most passes to all."""
        wrapper = self._wrapper
        (source,) = _highest(wrapper, [wrapper.process_group.rank() if is_last_joiner else -1])
        wrapper._copy_from([t for _, t in wrapper._kept()], source)
