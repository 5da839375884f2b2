"""Optimizers of parameters that other workers own."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.distributed._gradient_contexts import contexts
from flambeau.distributed.autograd import get_gradients
from flambeau.distributed.rpc import RRef, rpc_async
from flambeau.futures import wait_all

__all__ = ["DistributedOptimizer"]


_stepping = threading.Lock()


class _LocalOptimizer:
    """An optimizer of the parameters that one worker owns.

    It steps aliases of the parameters, which share their memory and have gradients and counts of writes of
    their own. So steps neither read nor change `.grad` of the parameters, and graphs of other trainers can
    still run backward.
    """

    def __init__(self, kind: Any, references: list[RRef[Any]], args: Any, kwargs: Any) -> None:
        self._parameters: list[Tensor] = [reference.local_value() for reference in references]
        self._aliases = [parameter.data.requires_grad_() for parameter in self._parameters]
        self._optimizer = kind(self._aliases, *args, **kwargs)

    def step(self, context_id: int) -> None:
        """Step with the gradients of a context."""
        gradients = get_gradients(context_id)
        with _stepping:
            for parameter, alias in zip(self._parameters, self._aliases, strict=True):
                alias.grad = gradients.get(parameter)
            try:
                self._optimizer.step()
            finally:
                for alias in self._aliases:
                    alias.grad = None


def _make(kind: Any, references: list[RRef[Any]], args: Any, kwargs: Any) -> RRef[_LocalOptimizer]:
    return RRef(_LocalOptimizer(kind, references, args, kwargs))


def _step(optimizer: RRef[_LocalOptimizer], context_id: int) -> None:
    optimizer.local_value().step(context_id)


class DistributedOptimizer:
    """Optimizer of parameters that several workers own, by the gradients of a context.

    Each owner runs an optimizer of its parameters, which keeps its states there, and one step at a time. If
    several workers train the same parameters, steps of others may come between the forward and the backward
    pass of a worker, whose gradients are then those of mixed values and no error, as in Recht et al. 2011,
    "Hogwild!". A parameter without a gradient in the context is skipped.

    Args:
        optimizer_class: an optimizer of `flambeau.optim`, or another class that all owners can import.
        params_rref: RRefs of parameters.
        *args: arguments of the optimizers.
        **kwargs: arguments of the optimizers by name.
    Raises: TypeError for parameters that are not RRefs; ValueError for an empty list; the exception
        of an optimizer.
    Source: PyTorch's documentation of the class.

    Example:
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> dist, weight = flambeau.distributed, flambeau.ones(2, requires_grad=True)
        >>> optimizer = dist.optim.DistributedOptimizer(flambeau.optim.SGD, [rpc.RRef(weight)], lr=0.5)
        >>> with dist.autograd.context() as number:
        ...     dist.autograd.backward(number, [weight.sum()])
        ...     optimizer.step(number)
        >>> weight
        tensor([0.5000, 0.5000], requires_grad=True)
        >>> rpc.shutdown()
    """

    def __init__(
        self, optimizer_class: Any, params_rref: Sequence[RRef[Any]], *args: Any, **kwargs: Any
    ) -> None:
        by_owner: dict[Any, list[RRef[Any]]] = defaultdict(list)
        references = list(params_rref)
        for reference in references:
            if not isinstance(reference, RRef):
                raise TypeError(
                    f"DistributedOptimizer: expected RRefs of parameters, got {type(reference).__name__}"
                )
            by_owner[reference.owner()].append(reference)
        if not references:
            raise ValueError("DistributedOptimizer: expected at least one parameter, got an empty list")
        made = [
            rpc_async(owner, _make, args=(optimizer_class, owned, args, kwargs))
            for owner, owned in by_owner.items()
        ]
        self.remote_optimizers: list[RRef[Any]] = wait_all(made)

    def step(self, context_id: int) -> None:
        """Step the optimizers of all owners; returns when all have done so.

        Args:
            context_id: the number of the context with the gradients.
        Raises: RuntimeError for an unknown context; the exception of an optimizer.
        """
        contexts.retrieve("DistributedOptimizer.step", context_id)
        wait_all([rpc_async(o.owner(), _step, args=(o, context_id)) for o in self.remote_optimizers])


DistributedOptimizer.__module__ = "flambeau.distributed.optim"

__getattr__, __dir__ = attributes(__name__)
