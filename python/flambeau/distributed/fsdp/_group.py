"""ParameterGroup: parameters that are gathered, freed and reduced together."""

from __future__ import annotations

import contextlib
import enum
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed.fsdp._layout import Layout
from flambeau.distributed.fsdp._member import Member
from flambeau.distributed.fsdp._policies import MixedPrecisionPolicy
from flambeau.distributed.fsdp._transfers import AllGather, Gather, ReduceScatter, Reduction, Scale


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Record no operations, and make tensors that later passes can save."""
    with flambeau.inference_mode(False), flambeau.no_grad():
        yield


class Phase(enum.Enum):
    """Where a group is in an iteration."""

    IDLE = enum.auto()
    FORWARD = enum.auto()
    BACKWARD = enum.auto()
    REDUCED = enum.auto()


class Reductions:
    """The reductions of a model that run; each is waited for before the next but `limit - 1` starts."""

    def __init__(self) -> None:
        self.limit = 1
        self._running: deque[tuple[ParameterGroup, Reduction]] = deque()

    def make_room(self) -> None:
        """Finish reductions until another one may start."""
        while len(self._running) >= self.limit:
            self._finish_first()

    def add(self, group: ParameterGroup, reduction: Reduction) -> None:
        """Remember a reduction that runs."""
        self._running.append((group, reduction))

    def finish(self) -> None:
        """Finish all reductions."""
        while self._running:
            self._finish_first()

    def drop(self) -> None:
        """Wait for all reductions, and forget their results."""
        while self._running:
            self._running.popleft()[1].wait()

    def _finish_first(self) -> None:
        group, reduction = self._running.popleft()
        group.finish_reduction(reduction)


class ParameterGroup:
    """Parameters that are gathered, freed and reduced together.

    Args:
        parameters: the parameters.
        layout: the processes.
        policy: the dtypes.
        reshards: whether the whole parameters are freed after forward; None: unless the module is the root.
        smaller: the processes that keep parts between forward and backward; None: those of `layout`.
    """

    def __init__(
        self,
        parameters: Sequence[Member],
        layout: Layout,
        policy: MixedPrecisionPolicy,
        reshards: bool | None,
        smaller: Layout | None,
    ) -> None:
        self.parameters, self.layout, self.policy, self.smaller = list(parameters), layout, policy, smaller
        self.reshards_after_forward = reshards
        self.reshards_after_backward = self.reduces = self.all_reduces = self.unshards_in_backward = True
        self.reduces_unused = False
        self.gathers, self.scatters, self.scatter_group = AllGather(), ReduceScatter(), layout.group
        self.divisor: float | None = None
        self.reduced_hook: Callable[[Tensor], object] | None = None
        self.phase = Phase.IDLE
        self._has_reduced = False  # in this backward pass
        self._gather: Gather | None = None
        self._is_whole = False
        self._unfinished: Tensor | None = None  # what has been added over the parts, not over the copies

    # --- parts and wholes ------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """Whether the module has the whole parameters."""
        return self._is_whole

    @unrecorded()
    def start_unshard(self) -> None:
        """Start to gather the parameters, unless that has happened."""
        if self._is_whole or self._gather is not None:
            return
        is_smaller = self.smaller is not None and self.parameters[0].resharded is not None
        layout = self.smaller if is_smaller and self.smaller is not None else self.layout
        self._gather = Gather(self.parameters, layout, self.policy.param_dtype, self.gathers)

    @unrecorded()
    def unshard(self) -> None:
        """Give the module the whole parameters."""
        self.start_unshard()
        gather, self._gather = self._gather, None
        if gather is None:
            return
        gather.finish()
        for parameter in self.parameters:
            parameter.use_whole()
        self._is_whole = True

    def reshard(self) -> None:
        """Give the module the parts, and free the wholes."""
        self.drop_gather()
        for parameter in self.parameters:
            parameter.use_part()
            parameter.free()
        self._is_whole = False

    @unrecorded()
    def _reshard_to_smaller(self) -> None:
        for parameter in self.parameters:
            parameter.keep_part()
            parameter.free()
        self._is_whole = False

    def drop_gather(self) -> None:
        """Forget parameters that were gathered but not used."""
        if self._gather is not None:
            gather, self._gather = self._gather, None
            gather.drop()

    # --- an iteration ----------------------------------------------------------------------------------

    def before_forward(self) -> None:
        """Gather the parameters."""
        self.phase = Phase.FORWARD
        self.unshard()

    def after_forward(self) -> None:
        """Free the parameters, if forward shall not leave them."""
        self.phase = Phase.IDLE
        if not self._is_whole or not self.reshards_after_forward:
            return
        if self.smaller is None:
            self.reshard()
        else:
            self._reshard_to_smaller()

    def begin_pass(self) -> None:
        """Note that a backward pass begins."""
        self.phase, self._has_reduced = Phase.IDLE, False

    def before_backward(self) -> None:
        """Gather the parameters."""
        self.phase = Phase.BACKWARD
        if self.unshards_in_backward:
            self.unshard()

    @unrecorded()
    def after_backward(self, reductions: Reductions) -> None:
        """Free the parameters, and start to reduce their gradients."""
        self.phase = Phase.REDUCED
        if not self.reduces:
            for parameter in self.parameters:
                parameter.keep_grad(self._reduce_dtype(parameter.dtype))
            self._free_after_backward()
            return
        grads = [parameter.take_grad() for parameter in self.parameters]
        self._free_after_backward()
        if self._owes_zeros or any(grad is not None for grad in grads):
            reductions.make_room()
            reductions.add(self, self._reduction(grads))
            self._has_reduced = True

    @property
    def has_to_reduce(self) -> bool:
        """Whether gradients of the wholes, or zeros in their place, have still to be reduced."""
        has_grads = any(parameter.has_grad for parameter in self.parameters)
        return self.reduces and (has_grads or self._owes_zeros)

    @property
    def _owes_zeros(self) -> bool:
        """Whether other processes may reduce in this pass, and wait for this one."""
        is_trained = any(parameter.requires_grad for parameter in self.parameters)
        return self.reduces_unused and is_trained and not self._has_reduced

    def _free_after_backward(self) -> None:
        if self.reshards_after_backward:
            self.reshard()

    def _reduce_dtype(self, dtype: flambeau.dtype) -> flambeau.dtype:
        return self.policy.reduce_dtype or self.policy.param_dtype or dtype

    def _reduction(self, grads: list[Tensor | None]) -> Reduction:
        kept = [
            i
            for i, (p, grad) in enumerate(zip(self.parameters, grads, strict=True))
            if grad is not None or (self.reduces_unused and p.requires_grad)
        ]
        parameters = [self.parameters[i] for i in kept]
        dtype = self._reduce_dtype(parameters[0].dtype)
        scale = Scale.of(dtype, self.layout.processes, self.divisor)
        chosen = [grads[i] for i in kept]
        grads.clear()
        return Reduction(parameters, chosen, self.layout, dtype, scale, self.scatters, self.scatter_group)

    @unrecorded()
    def finish_reduction(self, reduction: Reduction) -> None:
        """Wait for a reduction, and update the gradients of the parts."""
        earlier, self._unfinished = self._unfinished, None
        self._unfinished = reduction.finish(earlier, self.all_reduces, self.reduced_hook)

    def drop_grads(self) -> None:
        """Forget gradients that have not been reduced."""
        self._unfinished = None
        for parameter in self.parameters:
            parameter.drop_grad()

    # --- checks ----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take over what a conversion or loading has given the module."""
        for parameter in self.parameters:
            parameter.refresh()

    def check(self) -> None:
        """Raise AssertionError if trained parameters have different dtypes."""
        dtypes = {p.dtype for p in self.parameters if p.requires_grad}
        if len(dtypes) > 1:
            raise AssertionError(
                "fully_shard: FSDP expects uniform original parameter dtype: expected one dtype of the "
                f"parameters of a group that need gradients, got {_sorted_names(dtypes)}"
            )


def check_memory(groups: Iterable[ParameterGroup]) -> None:
    """Raise RuntimeError for parameters without memory."""
    parameters = (parameter for group in groups for parameter in group.parameters)
    on_meta = [p.name for p in parameters if p.device.type == "meta"]
    if on_meta:
        raise RuntimeError(
            "fully_shard: FSDP parameters should be materialized from meta device before training, but the "
            f"following were still on meta device: {on_meta}: expected parameters on the CPU; "
            "module.to_empty(device='cpu') gives them memory, which has to be initialized"
        )


def _sorted_names(values: Iterable[Any]) -> list[str]:
    return sorted(str(value) for value in values)
