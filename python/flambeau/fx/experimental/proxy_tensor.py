"""`make_fx`: a graph of the operators that a program calls, below autograd and autocast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import flambeau
from flambeau import _C
from flambeau._subclasses.fake_tensor import FakeTensorMode
from flambeau._surface.guards import detect_fake_mode
from flambeau.fx._symbolic_trace import Tracer
from flambeau.fx.experimental import _operator_trace
from flambeau.fx.experimental._described import DescribingTracer
from flambeau.fx.experimental._operator_trace import PythonKeyTracer
from flambeau.fx.experimental._operator_trace import RecordingMode as ProxyTorchDispatchMode
from flambeau.fx.experimental.symbolic_shapes import SymBool, SymFloat, SymInt
from flambeau.fx.graph import Graph
from flambeau.fx.interpreter import Interpreter
from flambeau.utils._python_dispatch import TorchDispatchModeKey, _pop_mode_temporarily
from flambeau.utils._pytree import tree_map_only

__all__ = [
    "DecompositionInterpreter",
    "ProxyTorchDispatchMode",
    "PythonKeyTracer",
    "dispatch_trace",
    "get_innermost_proxy_mode",
    "get_proxy_mode",
    "is_sym_node",
    "make_fx",
    "maybe_disable_fake_tensor_mode",
    "py_sym_types",
]

py_sym_types = (SymInt, SymFloat, SymBool)


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Any = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
    **_options: Any,
) -> Callable[..., Any]:
    """Return a function that runs a program on examples and returns the graph of its operators.

    The graph contains overloads such as ``ops.aten.add.Tensor``, including those of backward passes. Sizes,
    numbers and branches are those of the examples. Tensors that are not arguments become attributes of the
    graph's module. With symbolic sizes, the graph computes them from its arguments, and the `ShapeEnv` in its
    attribute ``shape_env`` has the conditions under which the graph is valid. Each node whose value is a
    tensor has a fake tensor with its sizes, strides, dtype and device in ``meta["val"]``, and its
    `TensorMetadata` in ``meta["tensor_meta"]``.

    Args:
        f: the program, a function of tensors, numbers and containers of them, or a Module.
        decomposition_table: overload -> function; the operators of the function are recorded instead.
        tracing_mode: "real": the operators run on the examples. "fake": they run on fake tensors in place of
            the examples, so that nothing is computed, and writes do not change the examples. "symbolic": the
            same, with symbols for the sizes of tensors and for the integers among the arguments.
        pre_dispatch: must be False.
        record_module_stack: accepted.
        _allow_non_fake_inputs: whether a program that is recorded on fake tensors may use other tensors, such
            as the parameters of a module.
        _allow_fake_constant: accepted.
        _error_on_data_dependent_ops: accepted.
        record_stack_traces: whether ``meta["stack_trace"]`` holds the lines of the program that called the
            operator.
        **_options: accepted.
    Returns: a function of example arguments that returns a `fx.GraphModule`.
    Raises: ValueError for another tracing mode or `pre_dispatch`. The returned function raises RuntimeError
        where the program reads elements of a recorded tensor (``item()``, a branch), and AssertionError where
        a program that is recorded on fake tensors uses others that are not allowed.

    Example:
        >>> import flambeau
        >>> def slope(x):
        ...     x = x.detach().requires_grad_()
        ...     return flambeau.autograd.grad(x.sin().sum(), x)[0]
        >>> graph = make_fx(slope)(flambeau.ones(2))
        >>> [node.name for node in graph.graph.nodes]  # doctest: +ELLIPSIS
        ['x_1', 'detach', 'sin', 'sum_1', ...
        >>> graph(flambeau.zeros(2))
        tensor([1., 1.])
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise ValueError(f"make_fx: expected tracing_mode='real', 'fake' or 'symbolic', got {tracing_mode!r}")
    if pre_dispatch:
        raise ValueError(
            "make_fx: expected pre_dispatch=False, got True: operators are recorded below autograd"
        )

    def traced(*args: Any) -> Any:
        mode = None
        if tracing_mode == "symbolic":
            from flambeau.fx.experimental._lanes import symbolic_trace

            return symbolic_trace.trace(
                f,
                args,
                detect_fake_mode(args),
                decomposition_table,
                allow_non_fake_inputs=_allow_non_fake_inputs,
                record_stack_traces=record_stack_traces,
            )
        if tracing_mode == "fake":
            mode = detect_fake_mode(args) or FakeTensorMode(allow_non_fake_inputs=_allow_non_fake_inputs)
            args = tree_map_only(flambeau.Tensor, mode.from_tensor, args)
        tracer = DescribingTracer(record_stack_traces)
        return _operator_trace.trace(f, args, decomposition_table, tracer=tracer, within=mode)

    return traced


def dispatch_trace(root: Any, tracer: Tracer, concrete_args: tuple[Any, ...] | None = None) -> Any:
    """Record a program's Python calls with a given tracer, and return the graph's module.

    Args:
        root: a function or Module.
        tracer: the tracer that records.
        concrete_args: arguments that are not inputs of the graph.
    """
    from flambeau.fx.graph_module import GraphModule

    graph: Graph = tracer.trace(root, concrete_args)  # type: ignore[arg-type]
    name = getattr(root, "__name__", type(root).__name__)
    return GraphModule(tracer.root, graph, name)


class DecompositionInterpreter(Interpreter):
    """Runs a graph of overloads and records it again with decompositions.

    Args:
        module: the graph's module.
        new_graph: receives the nodes.
        decomposition_table: overload -> function whose operators are recorded instead.
    """

    def __init__(self, module: Any, new_graph: Graph, decomposition_table: Any = None, **kwargs: Any) -> None:
        super().__init__(module, **kwargs)
        self.tracer = _operator_trace.OperatorTracer()
        self.tracer.root, self.tracer.graph = module, new_graph
        self.mode = ProxyTorchDispatchMode(self.tracer, decomposition_table)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Add an input."""
        value = super().placeholder(target, args, kwargs)
        self.tracer.assign(value, self.tracer.graph.placeholder(target))
        return value

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Add an attribute."""
        value = super().get_attr(target, args, kwargs)
        self.tracer.assign(value, self.tracer.graph.get_attr(target))
        return value

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Add the output."""
        value = super().output(target, args, kwargs)
        self.tracer.graph.output(_operator_trace.pytree.tree_map(self.tracer.create_arg, value))
        return value

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph on examples and record it."""
        with self.mode:
            return super().run(*args, **kwargs)


def get_innermost_proxy_mode() -> Any:
    """Return the mode that records operators in this thread, or None."""
    return _C._get_dispatch_mode(TorchDispatchModeKey.PROXY)


get_proxy_mode = get_innermost_proxy_mode


@contextmanager
def maybe_disable_fake_tensor_mode() -> Iterator[None]:
    """A region without the active fake tensor mode, if there is one."""
    with _pop_mode_temporarily(TorchDispatchModeKey.FAKE):
        yield


@contextmanager
def disable_proxy_modes_tracing(enable_current: bool = False) -> Iterator[Any]:
    """A region in which operators are not recorded.

    Args:
        enable_current: accepted.
    """
    if get_innermost_proxy_mode() is None:
        yield None
        return
    with _pop_mode_temporarily(TorchDispatchModeKey.PROXY) as mode:
        yield mode


def is_sym_node(node: Any) -> bool:
    """Return whether the value of a node is a symbolic number.

    Args:
        node: the node.
    """
    return isinstance(getattr(node, "meta", {}).get("val"), py_sym_types)
