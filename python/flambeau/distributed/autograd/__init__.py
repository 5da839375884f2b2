"""Backward passes through remote procedure calls (docs/distributed.md)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.distributed import _gradient_contexts
from flambeau.distributed._gradient_contexts import Context, contexts
from flambeau.distributed.autograd import _passes
from flambeau.distributed.autograd._releases import release

__all__ = ["backward", "context", "get_gradients", "is_available"]

_numbers = itertools.count()


class context:
    """A context in which remote calls are recorded for `backward`.

    The number that it gives identifies it in all workers. Calls of this thread, and calls that these make in
    other workers, belong to the context. A thread has one context at a time; several threads have several.

    Raises: RuntimeError before `rpc.init_rpc`, or if the thread has a context.

    Example:
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> with flambeau.distributed.autograd.context() as number:
        ...     y = rpc.rpc_sync("alone", flambeau.mul, args=(x, 3))
        ...     flambeau.distributed.autograd.backward(number, [y.sum()])
        ...     flambeau.distributed.autograd.get_gradients(number)[x]
        tensor([3., 3.])
        >>> rpc.shutdown()
    """

    def __enter__(self) -> int:
        if _gradient_contexts.current() is not None:
            raise RuntimeError(
                "distributed.autograd.context: Already have an autograd context id for this thread: expected "
                f"none, got {_gradient_contexts.current().number}"  # type: ignore[union-attr]
            )
        self._context = contexts.join(contexts.new_number())
        self._using = _gradient_contexts.using(self._context)
        self._using.__enter__()
        return self._context.number

    def __exit__(self, *error: Any) -> None:
        self._using.__exit__(None, None, None)
        release(self._context.number)


def backward(context_id: int, roots: Sequence[Tensor], retain_graph: bool = False) -> None:
    """Compute gradients of roots for the leaves of their graph in all workers.

    The gradients are added to those of the context in the worker of each leaf; ``.grad`` does not change.

    Args:
        context_id: the number of the context.
        roots: scalar tensors of this worker.
        retain_graph: whether the graph can be used again.
    Returns: None, when the pass is complete in all workers.
    Raises: RuntimeError for an unknown context or roots that need no gradient; the error of a worker, with
        its traceback in the message.
    Source: PyTorch's design note "Distributed Autograd Design", FAST mode, and SMART mode for what it leaves.

    Example:
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> with flambeau.distributed.autograd.context() as number:
        ...     flambeau.distributed.autograd.backward(number, [(x * x).sum()])
        ...     flambeau.distributed.autograd.get_gradients(number)[x]
        tensor([2., 2.])
        >>> rpc.shutdown()
    """
    found = contexts.retrieve("distributed.autograd.backward", context_id)
    _run(found, _checked(roots), bool(retain_graph))


def _checked(roots: Any) -> list[Tensor]:
    name = "distributed.autograd.backward"
    if isinstance(roots, Tensor) or not isinstance(roots, Sequence):
        raise TypeError(f"{name}: expected a list of tensors as roots, got {type(roots).__name__}")
    if not roots:
        raise RuntimeError(f"{name}: No tensors provided for gradient computation: expected roots, got none")
    for root in roots:
        if not isinstance(root, Tensor):
            raise TypeError(f"{name}: expected tensors as roots, got {type(root).__name__}")
        if not root.requires_grad:
            raise RuntimeError(f"{name}: requires_grad not set on root: expected it, got {root}")
        if root.numel() != 1:
            raise RuntimeError(
                f"{name}: root is not a scalar, all roots need to be scalar: expected one element, got shape "
                f"{list(root.shape)}"
            )
    return list(roots)


def _run(found: Context, roots: list[Tensor], retain_graph: bool) -> None:
    _passes.run(found, next(_numbers), roots, retain_graph)


def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """Return the gradients of a context in this worker.

    Args:
        context_id: the number of the context.
    Returns: a dictionary from tensors, compared by identity, to their gradients.
    Raises: RuntimeError for an unknown context.

    Example:
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> with flambeau.distributed.autograd.context() as number:
        ...     len(flambeau.distributed.autograd.get_gradients(number))
        0
        >>> rpc.shutdown()
    """
    found = contexts.retrieve("distributed.autograd.get_gradients", context_id)
    with found.lock:
        return dict(found.gradients)


def is_available() -> bool:
    """Tell whether distributed autograd exists.

    Returns: True.

    Example:
        >>> flambeau.distributed.autograd.is_available()
        True
    """
    return True


__getattr__, __dir__ = attributes(__name__, {"DistAutogradContext": "flambeau.distributed._unbuilt"})
