"""Looking at, and into, the graph of recorded operations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flambeau import _C
from flambeau._C import Node, RemovableHandle, Tensor
from flambeau.autograd._mutation import allow_mutation_on_saved_tensors, increment_version
from flambeau.autograd._saved_hooks import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

if TYPE_CHECKING:
    from flambeau.autograd._drawing import Drawing, draw

__all__ = [
    "Drawing",
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "draw",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


def __getattr__(name: str) -> Any:
    # Imported when it is first used, so that `import flambeau` stays quick.
    if name in ("Drawing", "draw"):
        from flambeau.autograd import _drawing

        return getattr(_drawing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _OutputInfo(NamedTuple):
    """What a node knows of one of its outputs."""

    shape: Any
    dtype: Any
    device: Any


# Under the name by which PyTorch's programs know it: outputs are the inputs of the backward pass.
Node._input_metadata = property(
    lambda node: [None if info is None else _OutputInfo(*info) for info in node._output_info]
)


class GradientEdge(NamedTuple):
    """The place in the graph to which a tensor's gradient goes."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the place to which the tensor's gradient goes.

    Raises: RuntimeError if the tensor does not require a gradient.
    """
    if not tensor.requires_grad:
        raise RuntimeError("get_gradient_edge: the tensor does not require gradients")
    node = tensor.grad_fn
    if node is None:
        node = tensor.view_as(tensor).grad_fn.next_functions[0][0]
    return GradientEdge(node, tensor.output_nr)


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
        raise ValueError(f"mode: expected 'all' or 'any', got {mode!r}")
    if mode == "any":
        return _first_gradient(tensors, fn)
    nodes = [get_gradient_edge(t).node for t in tensors]
    # One pass belongs to one thread, and a reentrant pass has a number of its own.
    passes: dict[int, list[Any]] = {}

    def arrived(index: int, grad: Tensor) -> None:
        task = _C._current_pass()
        gradients = passes.setdefault(task, [None] * len(tensors))
        gradients[index] = grad
        expected = sum(_C._pass_reaches(node) for node in nodes)
        if sum(g is not None for g in gradients) == expected:
            fn(passes.pop(task))

    return _Handles([t.register_hook(functools.partial(arrived, i)) for i, t in enumerate(tensors)])


def _first_gradient(tensors: Sequence[Tensor], fn: Callable[[Any], None]) -> _Handles:
    seen: set[int] = set()

    def arrived(grad: Tensor) -> None:
        task = _C._current_pass()
        if task not in seen:
            seen.clear()
            seen.add(task)
            fn(grad)

    return _Handles([t.register_hook(arrived) for t in tensors])
