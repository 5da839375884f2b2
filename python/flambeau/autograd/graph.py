"""The graph of recorded operations: its nodes, edges and hooks."""

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
    """Edge of the graph that carries the gradient of a tensor.

    Args:
        node: the node that receives the gradient.
        output_nr: the number of the node's output that the tensor is.

    Example:
        >>> x = flambeau.ones(1, requires_grad=True)
        >>> edge = flambeau.autograd.graph.get_gradient_edge(x * 2)
        >>> edge.node.name(), edge.output_nr
        ('MulBackward0', 0)
    """

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge of the graph that carries the gradient of a tensor.

    Args:
        tensor: a tensor that requires a gradient.
    Returns: the edge, which `autograd.grad` accepts in place of the tensor.
    Raises: RuntimeError if the tensor does not require a gradient.

    Example:
        >>> x = flambeau.ones(1, requires_grad=True)
        >>> flambeau.autograd.graph.get_gradient_edge(x * 2).node.name()
        'MulBackward0'
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
    """Call a function with the gradients of several tensors during backward.

    Args:
        tensors: the tensors.
        fn: the function. In mode "all" it receives a list with a gradient, or None, per tensor; in mode "any"
            the first gradient.
        mode: "all" calls the function once the pass has computed all gradients that it computes, "any" at the
            first one.
    Returns: a handle whose ``remove()`` unregisters the hook.
    Raises: ValueError for another mode.

    Example:
        >>> x, y = (flambeau.ones(1, requires_grad=True) for _ in range(2))
        >>> handle = flambeau.autograd.graph.register_multi_grad_hook((x, y), print)
        >>> (2 * x + 3 * y).backward()
        [tensor([2.]), tensor([3.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"mode: expected 'all' or 'any', got {mode!r}")
    if mode == "any":
        return _first_gradient(tensors, fn)
    nodes = [get_gradient_edge(t).node for t in tensors]
    count = len(tensors)  # the hooks must not hold the tensors that hold them
    # One pass belongs to one thread, and a reentrant pass has a number of its own.
    passes: dict[int, list[Any]] = {}

    def arrived(index: int, grad: Tensor) -> None:
        task = _C._current_pass()
        gradients = passes.setdefault(task, [None] * count)
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
