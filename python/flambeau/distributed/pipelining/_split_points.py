"""Marks where a model is split, and the tracer that records them."""

from __future__ import annotations

import contextlib
import enum
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flambeau import Tensor
from flambeau.fx import Graph, GraphModule, Node, Tracer
from flambeau.nn import Module

_active = threading.local()


class SplitPoint(enum.Enum):
    """Where a submodule splits a model: BEGINNING, before it, or END, after it.

    Example:
        >>> list(flambeau.distributed.pipelining.SplitPoint)
        [<SplitPoint.BEGINNING: 1>, <SplitPoint.END: 2>]
    """

    BEGINNING = 1
    END = 2


def pipe_split() -> None:
    """Split the model here, while `pipeline` traces it; do nothing otherwise.

    Returns: None.

    Example:
        >>> pipelining = flambeau.distributed.pipelining
        >>> class Model(flambeau.nn.Module):
        ...     def forward(self, x):
        ...         x = x + 1
        ...         pipelining.pipe_split()
        ...         return x * 2
        >>> pipelining.pipeline(Model(), (flambeau.ones(1),)).num_stages
        2
    """
    tracer = getattr(_active, "tracer", None)
    if tracer is not None:
        tracer.create_proxy("call_function", pipe_split, (), {})


class _Tracer(Tracer):
    """Records calls of `pipe_split`, and looks into the modules that contain split points.

    Args:
        points: the paths of submodules with split points.
    """

    def __init__(self, points: Mapping[str, Any]) -> None:
        super().__init__()
        self._points = points

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        inside = any(point.startswith(f"{module_qualified_name}.") for point in self._points)
        return not inside and super().is_leaf_module(m, module_qualified_name)

    @contextlib.contextmanager
    def _recording(self) -> Iterator[None]:
        before, _active.tracer = getattr(_active, "tracer", None), self
        try:
            yield
        finally:
            _active.tracer = before

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        with self._recording():
            return super().trace(root, concrete_args)


def _fixed_arguments(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that are no tensors, with defaults, by name."""
    signature = inspect.signature(module.forward)
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError(f"pipeline: expected a forward with named arguments, got {parameter}")
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"pipeline: expected the arguments of {type(module).__name__}.forward, got others: {error}"
        ) from None
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if not isinstance(value, Tensor)}


def traced(
    module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], points: Mapping[str, SplitPoint]
) -> GraphModule:
    """Return the graph of a module, with a call of `pipe_split` at each split point.

    Args:
        module: the module.
        args: its arguments; values that are no tensors become constants.
        kwargs: its keyword arguments.
        points: the path of a submodule -> the side on which it splits.
    """
    for path, point in points.items():
        if not isinstance(point, SplitPoint):
            raise ValueError(
                f"pipeline: Unknown split point type: expected a SplitPoint for {path}, got {point!r}"
            )
        _submodule(module, path)
    fixed = _fixed_arguments(module, args, kwargs)
    graph = _Tracer(points).trace(module, fixed)
    names = {f"{name}_1": name for name in fixed}
    for node in graph.nodes:
        if node.op == "placeholder" and node.target in names:
            node.target = names[node.target]
            node.args = (fixed[node.target],)
    for path, point in points.items():
        _insert(graph, path, point)
    return GraphModule(module, graph)


def _submodule(module: Module, path: str) -> Module:
    try:
        return module.get_submodule(path)
    except AttributeError:
        raise AttributeError(
            f"pipeline: expected the path of a submodule in split_spec, got {path!r}: "
            f"'{type(module).__name__}' object has no attribute '{path.split('.')[0]}'"
        ) from None


def _insert(graph: Graph, path: str, point: SplitPoint) -> None:
    calls: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for key, (found, _) in node.meta.get("nn_module_stack", {}).items():
            if found == path:
                calls.setdefault(key, []).append(node)
    if len(calls) != 1:
        raise ValueError(
            f"pipeline: expected one call of the submodule {path!r} in forward, got {len(calls)}"
        )
    (nodes,) = calls.values()
    place: Callable[..., Any] = (
        graph.inserting_before if point is SplitPoint.BEGINNING else graph.inserting_after
    )
    with place(nodes[0] if point is SplitPoint.BEGINNING else nodes[-1]):
        graph.call_function(pipe_split, (), {})


for _public in (SplitPoint, pipe_split):
    _public.__module__ = "flambeau.distributed.pipelining"
