"""Looking at, and into, the graph of recorded operations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Node, RemovableHandle, Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class GradientEdge(NamedTuple):
    """The place in the graph to which a tensor's gradient goes."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the place to which the tensor's gradient goes.

    Raises: RuntimeError if the tensor does not require a gradient.
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "get_gradient_edge: It is not possible to get the gradient edge for a Tensor that does not "
            "require gradients"
        )
    node = tensor.grad_fn
    if node is None:
        node = tensor.view_as(tensor).grad_fn.next_functions[0][0]
    return GradientEdge(node, tensor.output_nr)


class saved_tensors_hooks:
    """A block in which tensors kept for backward pass through a pair of functions.

    Args:
        pack_hook: called with each tensor that is saved; what it returns is kept instead.
        unpack_hook: called with that when backward needs the tensor; returns an equal one.

    >>> import flambeau as fb
    >>> x = fb.tensor([3.0], requires_grad=True)
    >>> with fb.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda v: fb.tensor(v)):
    ...     y = x.sin().exp()
    >>> y.backward()
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _C._push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *_: object) -> None:
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """A block in which tensors kept for backward wait in the host's memory.

    Args:
        pin_memory: accepted for PyTorch's programs; the host's memory needs no pinning here.
        device_type: accepted for PyTorch's programs.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(device=packed[0]))


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Make saved_tensors_hooks raise a RuntimeError with this message within the block."""
    previous = _C._disable_saved_tensors_hooks(error_message)
    try:
        yield
    finally:
        _C._disable_saved_tensors_hooks(previous)


class _Handles:
    """Removes several hooks at once."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> _Handles:
    """Call a function with the gradients of several tensors.

    Args:
        tensors: those whose gradients are awaited.
        fn: gets a list with one gradient (or None) per tensor; with mode "any", the first gradient.
        mode: "all": call once all that a backward pass will compute are there; "any": at the first.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if mode == "any":
        return _first_gradient(tensors, fn)
    nodes = [get_gradient_edge(t).node for t in tensors]
    passes: dict[int, list[Any]] = {}

    def arrived(index: int, grad: Tensor) -> None:
        task = _C._current_pass()
        gradients = passes.setdefault(task, [None] * len(tensors))
        gradients[index] = grad
        expected = sum(_C._pass_reaches(node) for node in nodes)
        if sum(g is not None for g in gradients) == expected:
            fn(passes.pop(task))

    return _Handles([t.register_hook(lambda g, i=i: arrived(i, g)) for i, t in enumerate(tensors)])


def _first_gradient(tensors: Sequence[Tensor], fn: Callable[[Any], None]) -> _Handles:
    seen: set[int] = set()

    def arrived(grad: Tensor) -> None:
        task = _C._current_pass()
        if task not in seen:
            seen.clear()
            seen.add(task)
            fn(grad)

    return _Handles([t.register_hook(arrived) for t in tensors])
