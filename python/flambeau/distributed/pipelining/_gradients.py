"""Gradients of a stage: their scale, and their reduction under DistributedDataParallel and fully_shard."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn import Module
from flambeau.nn.parallel import DistributedDataParallel


class StageGradients:
    """Decides when the gradients of a stage are reduced.

    Args:
        module: the module of the stage.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._earlier: list[tuple[Any, Tensor]] = []
        self._is_reducing = False  # the last backward pass of the step reduces while it runs

    def _sharded(self) -> list[Any]:
        """Return the outermost modules of fully_shard, and of FullyShardedDataParallel."""
        fsdp = sys.modules.get("flambeau.distributed.fsdp")
        if fsdp is None:
            return []
        found: dict[str, Any] = {}
        for name, module in self._module.named_modules():
            kinds = (fsdp.FSDPModule, fsdp.FullyShardedDataParallel)
            if isinstance(module, kinds) and not any(
                name.startswith(f"{outer}.") or outer == "" for outer in found
            ):
                found[name] = module
        return list(found.values())

    def splits(self) -> bool:
        """Whether gradients of weights can be computed apart from those of inputs."""
        return not self._sharded()

    @contextlib.contextmanager
    def unreduced(self) -> Iterator[None]:
        """Let the module run without reductions, which `reduce` does at the end of a step."""
        if not isinstance(self._module, DistributedDataParallel):
            yield
            return
        with self._module.no_sync():
            yield

    def before_backward(self, is_last: bool, is_full: bool) -> None:
        """Let modules reduce in the last backward pass of a step.

        Args:
            is_last: whether no other pass follows.
            is_full: whether all gradients of weights are there after it.
        """
        for module in self._sharded():
            module._set_gradient_sync(is_last)
        if is_last and is_full and isinstance(self._module, DistributedDataParallel):
            self._is_reducing = self._module._begin_accumulated()

    def set_whole(self, is_whole: bool) -> None:
        """Gather the parameters of sharded modules, or give them their parts."""
        fsdp = sys.modules.get("flambeau.distributed.fsdp")
        for module in self._sharded():
            if fsdp is not None and isinstance(module, fsdp.FullyShardedDataParallel):
                module._reshard()  # each forward pass gathers
            elif is_whole:
                module.unshard()
            else:
                module.reshard()

    def reduce(self) -> None:
        """Average the gradients of all micro-batches over the copies of the stage."""
        if not isinstance(self._module, DistributedDataParallel):
            return
        if self._is_reducing:
            self._is_reducing = False
            self._module._end_accumulated()
        else:
            self._module._reduce_accumulated()

    # --- the scale ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Put gradients of earlier steps aside, so that only those of this step are scaled."""
        # The reduction writes into gradients that are views of buckets.
        copies = isinstance(self._module, DistributedDataParallel) and self._module.gradient_as_bucket_view
        found = [(p, p.grad) for p in self._module.parameters() if p.grad is not None]
        self._earlier = [(p, grad.clone() if copies else grad) for p, grad in found]
        for parameter, _ in self._earlier:
            parameter.grad = None

    def undo(self) -> None:
        """Give the parameters the gradients that they had before a step that failed."""
        if self._is_reducing and isinstance(self._module, DistributedDataParallel):
            self._is_reducing = False
            self._module._buckets.disarm()
        for parameter in self._module.parameters():
            parameter.grad = None
        for parameter, grad in self._earlier:
            parameter.grad = grad
        self._earlier = []

    def end(self, divisor: int) -> None:
        """Divide the gradients of this step, and add those of earlier steps."""
        with flambeau.no_grad():
            if divisor != 1:
                for parameter in self._module.parameters():
                    if parameter.grad is not None:
                        parameter.grad.div_(divisor)
            for parameter, grad in self._earlier:
                if parameter.grad is None:
                    parameter.grad = grad
                else:
                    parameter.grad.add_(grad)
        self._earlier = []
