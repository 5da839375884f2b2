"""What one process keeps about distributed backward passes: which tensors were sent and received.

A context has the same number in all processes. The thread that opened it, and those that run functions for
that thread in other processes, have it as the current one.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.autograd import Function
from flambeau.autograd.graph import GradientEdge

_SHIFT = 48  # bits of the number within a process; those above are the rank
_here = threading.local()  # .context: the current one


class ReceivedTensors(Function):
    """The node of the tensors of one message; their gradients are sent back by `distributed.autograd`."""

    @staticmethod
    def forward(ctx: Any, recorded: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors, as results of this node."""
        ctx.mark_dirty(*tensors)
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Raise RuntimeError: the engine of one process cannot send gradients."""
        raise RuntimeError(
            "backward: expected distributed.autograd.backward for tensors that another worker has "
            "sent, got a "
            "backward pass of this process"
        )


class Context:
    """One context.

    Args:
        number: its number.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.lock = threading.Lock()
        self.sent: dict[int, list[GradientEdge]] = {}  # by the number of the message
        self.received: dict[Any, tuple[int, int, int]] = {}  # node -> rank, message, number of tensors
        self.workers: set[int] = set()  # that this process has sent messages of the context to
        self.gradients: dict[Tensor, Tensor] = {}
        self.passes: dict[tuple[int, int, int], Any] = {}

    def add_gradient(self, leaf: Tensor, gradient: Tensor) -> None:
        """Add to the gradient of a tensor."""
        with self.lock:
            known = self.gradients.get(leaf)
            self.gradients[leaf] = gradient if known is None else known + gradient


class Contexts:
    """The contexts of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, Context] = {}
        self._numbers = itertools.count()
        self.rank: int | None = None

    def new_number(self) -> int:
        """Return a number that no other process has."""
        if self.rank is None:
            raise RuntimeError(
                "distributed.autograd: expected rpc.init_rpc before it, got Need to initialize distributed "
                "autograd using rpc.init_rpc"
            )
        return self.rank << _SHIFT | next(self._numbers)

    def find(self, number: int) -> Context | None:
        """Return a context, or None."""
        with self._lock:
            return self._known.get(number)

    def retrieve(self, name: str, number: int) -> Context:
        """Return a context. Raises: RuntimeError if there is none."""
        found = self.find(number)
        if found is None:
            raise RuntimeError(
                f"{name}: expected the number of an open context, got Could not find autograd context with id"
                f": {number}"
            )
        return found

    def join(self, number: int) -> Context:
        """Return a context, which is made if it is unknown."""
        with self._lock:
            return self._known.setdefault(number, Context(number))

    def release(self, number: int) -> Context | None:
        """Forget a context and return it."""
        with self._lock:
            return self._known.pop(number, None)

    def clear(self) -> None:
        """Forget all contexts and the rank."""
        with self._lock:
            self._known.clear()
            self.rank = None

    def __len__(self) -> int:
        return len(self._known)


contexts = Contexts()


def current() -> Context | None:
    """Return the context of this thread."""
    return getattr(_here, "context", None)


class using:
    """Make a context the current one of this thread.

    Args:
        context: the context, or None.
    """

    def __init__(self, context: Context | None) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._before = current()
        _here.context = self._context

    def __exit__(self, *error: object) -> None:
        _here.context = self._before


def keeping(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callback that runs with the context that is the current one now."""
    context = current()
    if context is None:
        return callback

    def call(*arguments: Any) -> Any:
        with using(context):
            return callback(*arguments)

    return call


def _edge(tensor: Tensor) -> GradientEdge:
    """Return an edge to the node of a tensor, which stays when the tensor is written to or freed."""
    with flambeau.enable_grad():
        return GradientEdge(tensor.view_as(tensor).grad_fn, 0)


def note_sent(context: Context, to: int, tensors: Sequence[Tensor]) -> int:
    """Record a message to another worker; its number is -1 if no tensor needs a gradient."""
    edges = [_edge(t) for t in tensors if t.requires_grad]
    number = contexts.new_number() if edges else -1
    with context.lock:
        context.workers.add(to)
        if number >= 0:
            context.sent[number] = edges
    return number


def note_received(context: Context, sender: int, number: int, tensors: Sequence[Tensor]) -> None:
    """Make tensors that came with a message, and need gradients, results of one node."""
    with flambeau.enable_grad():
        recorded = flambeau.empty(0, device="cpu", requires_grad=True)
        ReceivedTensors.apply(recorded, *tensors)
    with context.lock:
        context.received[tensors[0].grad_fn] = (sender, number, len(tensors))
