"""The two transfers of a group: parts of parameters are gathered, gradients are reduced to parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import (
    AllgatherOptions,
    AllreduceOptions,
    ReduceOp,
    ReduceScatterOptions,
)
from flambeau.distributed._work import Work
from flambeau.distributed.fsdp._layout import Layout
from flambeau.distributed.fsdp._member import Member

_CPU = flambeau.device("cpu")
_ALL_REDUCE = AllreduceOptions(asyncOp=True)


class _Allocating:
    def allocate(self, size: Sequence[int], *, dtype: flambeau.dtype, device: flambeau.device) -> Tensor:
        """Return memory for what is sent or received."""
        return flambeau.empty(tuple(size), dtype=dtype, device=device)


class AllGather(_Allocating):
    """Gathers the parts of a group; `set_custom_all_gather` replaces it."""

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup, async_op: bool = False
    ) -> Work | None:
        return group._allgather_base(output_tensor, input_tensor, AllgatherOptions(asyncOp=async_op))


class ReduceScatter(_Allocating):
    """Reduces the gradients of a group; `set_custom_reduce_scatter` replaces it."""

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> Work | None:
        opts = ReduceScatterOptions(op, asyncOp=async_op)
        return group._reduce_scatter_base(output_tensor, input_tensor, opts)


def _wait(work: Work | None) -> None:
    if work is not None:
        work.wait()


class Gather:
    """Parts of parameters on their way to all processes: one collective per dtype.

    Args:
        parameters: the parameters.
        layout: the processes that have the parts.
        param_dtype: the dtype of wholes with floating-point elements; None: that of each.
        gathers: the collective.
    """

    def __init__(
        self,
        parameters: Sequence[Member],
        layout: Layout,
        param_dtype: flambeau.dtype | None,
        gathers: AllGather,
    ) -> None:
        self._layout, self._gathers = layout, gathers
        kinds: dict[flambeau.dtype, list[Member]] = {}
        for parameter in parameters:
            floats = parameter.dtype.is_floating_point
            dtype = param_dtype if param_dtype is not None and floats else parameter.dtype
            kinds.setdefault(dtype, []).append(parameter)
        self._started = [self._start(dtype, some) for dtype, some in kinds.items()]

    def _start(
        self, dtype: flambeau.dtype, parameters: list[Member]
    ) -> tuple[list[Member], list[int], Tensor, Work | None]:
        sizes = [parameter.chunk(self._layout) for parameter in parameters]
        sent = flambeau.empty(sum(sizes), dtype=dtype, device=_CPU)
        for parameter, room in zip(parameters, sent.split(sizes), strict=True):
            part = parameter.part().reshape(-1)
            room[: part.numel()].copy_(part)
            room[part.numel() :].zero_()
        received = self._gathers.allocate([self._layout.size * sum(sizes)], dtype=dtype, device=_CPU)
        work = self._gathers(received, sent, self._layout.group, async_op=True)
        return parameters, sizes, received.view(self._layout.size, -1), work

    def finish(self) -> None:
        """Wait, and give the parameters their wholes."""
        started, self._started = self._started, []
        while started:
            parameters, sizes, received, work = started.pop(0)
            _wait(work)
            for parameter, parts in zip(parameters, received.split(sizes, 1), strict=True):
                parameter.fill(parts, self._layout, received.dtype)

    def drop(self) -> None:
        """Wait, and forget what has come."""
        for *_, work in self._started:
            _wait(work)
        self._started = []


@dataclass(frozen=True)
class Scale:
    """What gradients are multiplied with before and after the sum."""

    before: float
    after: float

    @staticmethod
    def of(dtype: flambeau.dtype, processes: int, divisor: float | None) -> Scale:
        """Return the scale that divides the sum by the number of processes, or by another divisor."""
        if divisor is not None:
            return Scale(1.0, 1.0 / divisor)
        if dtype is not flambeau.float16:
            return Scale(1.0, 1.0 / processes)
        # Sums in float16 would overflow, quotients alone would underflow: divide by the root on each side.
        first = 1
        while processes % (2 * first) == 0 and processes // (2 * first) >= first:
            first *= 2
        return Scale(1.0 / first, first / processes)


class Reduction:
    """Gradients of a group's wholes on their way to the parts.

    Args:
        parameters: those with gradients, in the same order in all processes.
        grads: their gradients; None: zeros.
        layout: the processes.
        dtype: in which gradients are added.
        scale: what they are multiplied with.
        reduces: the collective.
        group: the processes among which it runs.
    """

    def __init__(
        self,
        parameters: list[Member],
        grads: list[Tensor | None],
        layout: Layout,
        dtype: flambeau.dtype,
        scale: Scale,
        reduces: ReduceScatter,
        group: ProcessGroup,
    ) -> None:
        self._parameters, self._layout, self._scale = parameters, layout, scale
        self._sizes = [parameter.chunk(layout) for parameter in parameters]
        size = sum(self._sizes)
        flat = reduces.allocate([layout.size * size], dtype=dtype, device=_CPU)
        rows = flat.view(layout.size, size)
        for i, room in enumerate(rows.split(self._sizes, 1)):
            parameters[i].write_parts(grads[i], room)
            grads[i] = None  # the memory is free before that of the next one is needed
        if scale.before != 1.0:
            rows.mul_(scale.before)
        self._reduced = reduces.allocate([size], dtype=dtype, device=_CPU)
        self._work = reduces(self._reduced, flat, group, ReduceOp.SUM, async_op=True)

    def wait(self) -> Tensor:
        """Return this process's part of the sum, which is not divided yet."""
        _wait(self._work)
        return self._reduced

    def finish(
        self, earlier: Tensor | None, all_reduces: bool, hook: Callable[[Tensor], object] | None
    ) -> Tensor | None:
        """Wait, and add the result to the gradients of the parts.

        Args:
            earlier: results that were not yet added over the copies.
            all_reduces: whether to add over the copies; without, nothing is added to gradients.
            hook: called with the result.
        Returns: the result, if it still has to be added over the copies.
        """
        reduced = self.wait()
        if earlier is not None:
            if earlier.shape != reduced.shape:
                raise RuntimeError(
                    "fully_shard: expected gradients of the same parameters in each pass between two calls "
                    f"of set_requires_all_reduce, got {earlier.numel()} and {reduced.numel()} elements"
                )
            reduced.add_(earlier)
        if self._layout.copies is not None:
            if not all_reduces:
                return reduced
            self._layout.copies.allreduce([reduced], _ALL_REDUCE).wait()
        if self._scale.after != 1.0:
            reduced.mul_(self._scale.after)
        if hook is not None:
            hook(reduced)
        for parameter, part in zip(self._parameters, reduced.split(self._sizes), strict=True):
            parameter.add_grad(part)
        return None
