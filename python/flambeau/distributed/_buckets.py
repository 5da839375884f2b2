"""Gradients of one process in buckets, which are reduced over all processes while backward still runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._reductions import AllreduceOptions, ReduceOp
from flambeau.futures import Future

__all__ = ["GradBucket"]

_FIRST_BUCKET = 1 << 20  # bytes: the first gradients should not wait long
Hook = Callable[[Any, "GradBucket"], Future[Any]]


class GradBucket:
    """Gradients that a communication hook of `DistributedDataParallel` reduces together.

    Args:
        index: the place of the bucket among all.
        parameters: the parameters.
        is_last: whether no bucket follows.

    Example:
        >>> p = flambeau.nn.Parameter(flambeau.ones(2, 3))
        >>> bucket = flambeau.distributed.GradBucket(0, [p], True)
        >>> bucket.buffer().shape, bucket.gradients()[0].shape, bucket.is_last()
        (flambeau.Size([6]), flambeau.Size([2, 3]), True)
    """

    def __init__(self, index: int, parameters: Sequence[Tensor], is_last: bool) -> None:
        self._index, self._parameters, self._is_last = index, list(parameters), is_last
        sizes = [p.numel() for p in parameters]
        self._buffer = flambeau.zeros(sum(sizes), dtype=parameters[0].dtype, device=parameters[0].device)
        self._missing = len(parameters)
        self._work: Any = None  # a Work, or the hook's Future

    def index(self) -> int:
        """Return the place of the bucket among all."""
        return self._index

    def buffer(self) -> Tensor:
        """Return the gradients as one tensor of one dimension."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the tensor with the gradients."""
        if buffer.numel() != self._buffer.numel():
            raise ValueError(
                f"GradBucket.set_buffer: expected {self._buffer.numel()} elements, got {buffer.numel()}"
            )
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Return the gradients of the parameters, as views of the buffer."""
        parts = self._buffer.split([p.numel() for p in self._parameters])
        return [part.view(p.shape) for part, p in zip(parts, self._parameters, strict=True)]

    def parameters(self) -> list[Tensor]:
        """Return the parameters."""
        return self._parameters

    def is_last(self) -> bool:
        """Whether no bucket follows."""
        return self._is_last


GradBucket.__module__ = "flambeau.distributed"


def divided(parameters: Sequence[Tensor], limit: int) -> Iterator[list[Tensor]]:
    """Yield the parameters of each bucket: the last ones first, of one dtype, up to a number of bytes."""
    open_buckets: dict[flambeau.dtype, list[Tensor]] = {}
    sizes: dict[flambeau.dtype, int] = {}
    most = min(_FIRST_BUCKET, limit)
    for parameter in reversed(parameters):
        found = open_buckets.setdefault(parameter.dtype, [])
        found.append(parameter)
        sizes[parameter.dtype] = sizes.get(parameter.dtype, 0) + parameter.numel() * parameter.element_size()
        if sizes[parameter.dtype] >= most:
            yield open_buckets.pop(parameter.dtype)
            del sizes[parameter.dtype]
            most = limit
    yield from open_buckets.values()


class Buckets:
    """The buckets of a model, and the reduction that runs.

    Args:
        parameters: those with gradients, in the same order in all processes.
        group: the processes.
        limit: bytes of a bucket.
        as_views: whether the gradients of the parameters are views of the buckets.
        names: the name of each parameter, for errors.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        group: ProcessGroup,
        limit: int,
        as_views: bool,
        names: Sequence[str],
    ) -> None:
        self._group, self._as_views = group, as_views
        self.divisor = group.size()
        parts = list(divided(parameters, limit))
        last = len(parts) - 1
        self.buckets = [GradBucket(i, part, i == last) for i, part in enumerate(parts)]
        self._place = {id(p): (b, i) for b in self.buckets for i, p in enumerate(b.parameters())}
        self._names = {id(p): name for p, name in zip(parameters, names, strict=True)}
        self._views = {
            id(p): v for b in self.buckets for p, v in zip(b.parameters(), b.gradients(), strict=True)
        }
        self._parameters = list(parameters)
        self._handles = [p.register_post_accumulate_grad_hook(self._accumulated) for p in parameters]
        self._hook: Hook | None = None
        self._state: Any = None
        self._armed, self._next = False, 0
        self.watches_repeats = self.has_repeats = False
        self._seen: set[int] = set()
        self._used_anywhere: Tensor | None = None
        self._used_work: Any = None

    def set_hook(self, state: Any, hook: Hook) -> None:
        """Let a function reduce the buckets."""
        self._state, self._hook = state, hook

    def remove(self) -> None:
        """Take the hooks off the parameters."""
        for handle in self._handles:
            handle.remove()

    def prepare(self, unused: Iterable[Tensor] | None) -> None:
        """Expect a backward pass.

        Args:
            unused: parameters that it will not reach; None: it reaches all.
        Raises: RuntimeError if the last pass did not reach all parameters.
        """
        if self._armed and self._seen:
            missing = [self._names[id(p)] for p in self._parameters if id(p) not in self._seen]
            raise RuntimeError(
                "DistributedDataParallel: Expected to have finished reduction in the prior iteration before "
                "starting a new one: expected gradients of all parameters, got none of "
                f"{', '.join(missing)}; find_unused_parameters=True allows that"
            )
        self._armed, self._next, self._used_work = True, 0, None
        self._seen.clear()
        for bucket in self.buckets:
            bucket._missing, bucket._work = len(bucket.parameters()), None
        if unused is not None:
            left_out = {id(p) for p in unused}
            self._tell_used([0 if id(p) in left_out else 1 for p in self._parameters])
            for parameter in self._parameters:
                if id(parameter) in left_out:
                    self._ready(parameter)

    def _tell_used(self, used: list[int]) -> None:
        """Start to find out which parameters are used by any process."""
        self._used_anywhere = flambeau.tensor(used, dtype=flambeau.int32)
        self._used_work = self._group.allreduce([self._used_anywhere], AllreduceOptions(ReduceOp.MAX))

    def take_part(self, finds_unused: bool) -> None:
        """Reduce gradients of zero with those of a backward pass of the other processes.

        Args:
            finds_unused: whether the others tell which parameters they use.
        """
        self._seen.clear()
        self._used_work = None
        if finds_unused:
            self._tell_used([0] * len(self._parameters))
        for bucket in self.buckets:
            bucket.buffer().zero_()
            self._start(bucket)
        self._finish()

    def disarm(self) -> None:
        """Forget a pass that failed."""
        self._armed = self.watches_repeats = self.has_repeats = False
        self._seen.clear()

    def _accumulated(self, parameter: Tensor) -> None:
        """Take the gradient of a parameter in backward; note if more is added to it afterwards."""
        if self.watches_repeats and id(parameter) in self._seen:
            self.has_repeats = True
        self._ready(parameter)

    def _ready(self, parameter: Tensor) -> None:
        """Take the gradient of a parameter; the last one of a bucket starts its reduction."""
        if not self._armed or id(parameter) in self._seen:
            return
        self._seen.add(id(parameter))
        bucket, _ = self._place[id(parameter)]
        view = self._views[id(parameter)]
        gradient = parameter.grad
        if gradient is None:
            view.zero_()
        elif gradient.data_ptr() != view.data_ptr():
            view.copy_(gradient)
        bucket._missing -= 1
        while self._next < len(self.buckets) and self.buckets[self._next]._missing == 0:
            self._start(self.buckets[self._next])
            self._next += 1
        if self._next == len(self.buckets):
            self._finish()

    def _start(self, bucket: GradBucket) -> None:
        if self._hook is not None:
            bucket._work = self._hook(self._state, bucket)
            return
        bucket.buffer().mul_(1.0 / self.divisor)
        bucket._work = self._group.allreduce([bucket.buffer()], AllreduceOptions())

    def _finish(self) -> None:
        """Wait for all reductions, and give the parameters their gradients."""
        self._armed = False
        used = self._parameters_used_anywhere()
        for bucket in self.buckets:
            if self._hook is None:
                bucket._work.wait()
            else:
                self._take_result(bucket, bucket._work.wait())
            for parameter in bucket.parameters():
                if id(parameter) in used:
                    self._give(parameter)

    def _take_result(self, bucket: GradBucket, result: Any) -> None:
        """Copy the result of a hook's future to the memory of the parameters' views."""
        value = result[0] if isinstance(result, list | tuple) else result
        own = self._views[id(bucket.parameters()[0])]
        if value.data_ptr() == own.data_ptr():
            return
        parts = value.reshape(-1).split([p.numel() for p in bucket.parameters()])
        for parameter, part in zip(bucket.parameters(), parts, strict=True):
            self._views[id(parameter)].copy_(part.view(parameter.shape))

    def _parameters_used_anywhere(self) -> set[int]:
        if self._used_work is None or self._used_anywhere is None:
            return {id(p) for p in self._parameters}
        self._used_work.wait()
        used = self._used_anywhere.tolist()
        return {id(p) for p, flag in zip(self._parameters, used, strict=True) if flag}

    def _give(self, parameter: Tensor) -> None:
        view = self._views[id(parameter)]
        if self._as_views:
            parameter.grad = view
        elif parameter.grad is None:
            parameter.grad = view.clone()
        else:
            parameter.grad.copy_(view)


def reached(outputs: Any) -> set[int]:
    """Return the ids of the leaves that backward from some outputs reaches."""
    from flambeau.utils._pytree import tree_leaves

    waiting = [t.grad_fn for t in tree_leaves(outputs) if isinstance(t, Tensor) and t.grad_fn is not None]
    found = {id(t) for t in tree_leaves(outputs) if isinstance(t, Tensor)}
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.add(id(variable))
        waiting += [following for following, _ in node.next_functions if following is not None]
    return found
