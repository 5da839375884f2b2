"""trace: records a program while it runs on examples."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._surface import jit_internal as marks
from flambeau._surface.jit_internal import is_tracing as is_tracing
from flambeau.fx._attributes import has_attribute
from flambeau.fx.graph_module import GraphModule
from flambeau.jit import _state
from flambeau.jit._recording import RecordingTracer, TracerWarning
from flambeau.jit._script import ScriptFunction, ScriptModule, script
from flambeau.nn import Module
from flambeau.utils import _pytree as pytree

__all__ = [
    "TopLevelTracedModule",
    "TracerWarning",
    "TracingCheckError",
    "is_tracing",
    "trace",
    "trace_module",
]


class TracingCheckError(Exception):
    """Exception for a recorded program whose values differ from those of the original.

    Args:
        graph_diff_error: how the graphs differ; None if they are equal.
        tensor_compare_error: how the values differ; None if they are equal.
        extra_msg: a line that precedes both; None: no such line.

    Example:
        >>> "the graphs differ" in str(flambeau.jit.TracingCheckError("the graphs differ", None))
        True
    """

    def __init__(
        self, graph_diff_error: Any, tensor_compare_error: Any, extra_msg: str | None = None
    ) -> None:
        parts = [extra_msg, graph_diff_error, tensor_compare_error]
        self.message = "Tracing failed sanity checks! " + "\n".join(str(part) for part in parts if part)
        super().__init__(self.message)


class TopLevelTracedModule(ScriptModule, GraphModule):
    """Class of the modules that `trace` and `trace_module` return.

    Args:
        root: the module whose parameters, buffers and layers the graph uses.
        graph: the recorded `fx.Graph`.
        class_name: the name that the module is printed with.

    Example:
        >>> traced = flambeau.jit.trace(flambeau.nn.ReLU(), flambeau.ones(1))
        >>> isinstance(traced, flambeau.jit.TopLevelTracedModule)
        True
    """

    def __init__(self, root: Module, graph: Any, class_name: str) -> None:
        GraphModule.__init__(self, root, graph, class_name)
        self._original_name = class_name

    def _as_graph(self) -> GraphModule:
        return self

    @property
    def graph(self) -> Any:
        """The graph; assigning another one recompiles."""
        return GraphModule.graph.fget(self)  # type: ignore[attr-defined]

    @graph.setter
    def graph(self, g: Any) -> None:
        GraphModule.graph.fset(self, g)  # type: ignore[attr-defined]

    code = GraphModule.code
    inlined_graph = graph

    def __str__(self) -> str:
        return Module.__repr__(self)

    def __getattr__(self, name: str) -> Any:
        methods = self.__dict__.get("_traced_methods", {})
        return methods[name] if name in methods else super().__getattr__(name)


TracedModule = TopLevelTracedModule


def _record(program: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a module's method, or a function; return the tracer."""
    args, kwargs = _copied(args), _copied(kwargs)
    tracer = RecordingTracer(args, kwargs)
    tracer.traced_func_name = method
    with marks.running("tracing"):
        graph = tracer.trace(program)
    for node in reversed(graph.nodes):
        if (
            not node.users
            and node.op not in ("placeholder", "output", "call_module")
            and not node.is_impure()
        ):
            graph.erase_node(node)
    return tracer


def _copied(tree: Any) -> Any:
    return pytree.tree_map(
        lambda leaf: (
            leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, Tensor) else leaf
        ),
        tree,
    )


def _as_tuple(example: Any) -> tuple[Any, ...]:
    return tuple(example) if isinstance(example, tuple | list) else (example,)


def _with_whole_state(module: GraphModule, root: Module) -> None:
    """Keep the parameters, buffers and modules that the graph does not use, for `state_dict`."""
    for path, parameter in root.named_parameters():
        if not has_attribute(module, path):
            owner, name = _owner(module, path)
            owner.register_parameter(name, parameter)
    for path, buffer in root.named_buffers():
        if not has_attribute(module, path):
            owner, name = _owner(module, path)
            source, _, last = path.rpartition(".")
            hidden = last in root.get_submodule(source)._non_persistent_buffers_set
            owner.register_buffer(name, buffer, persistent=not hidden)


def _owner(module: Module, path: str) -> tuple[Module, str]:
    *names, last = path.split(".")
    for name in names:
        if not isinstance(getattr(module, name, None), Module):
            module.add_module(name, Module())
        module = getattr(module, name)
    return module, last


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """Record the operators that a module or function runs on example inputs.

    Sizes are recorded as steps, so the result accepts other sizes where the program does. Branches, loops and
    numbers that depend on values are fixed to those of the example; a `TracerWarning` names each such place.

    Args:
        func: the module or function.
        example_inputs: a tuple of arguments, or one tensor.
        optimize: accepted for compatibility.
        check_trace: whether to compare the recorded program with the original, on the same inputs.
        check_inputs: further tuples of arguments for the comparison.
        check_tolerance: the relative and the absolute difference that the comparison allows.
        strict: accepted for compatibility; containers can always be returned.
        _force_outplace: accepted for compatibility.
        _module_class: accepted for compatibility.
        _compilation_unit: accepted for compatibility.
        example_kwarg_inputs: example arguments by name.
        _store_inputs: accepted for compatibility.
    Returns: a `ScriptModule` for a module, a `ScriptFunction` for a function. A scripted or traced program,
        and every object while PYTORCH_JIT=0 is set, is returned unchanged.
    Raises: TracingCheckError if the comparison fails.
    See also: jit.script, jit.trace_module, fx.symbolic_trace

    Example:
        >>> double = flambeau.jit.trace(lambda x: (x + x).view(x.size(0), -1), flambeau.ones(2, 2, 2))
        >>> double(flambeau.ones(1, 2, 2))
        tensor([[2., 2., 2., 2.]])
    """
    if not _state._enabled or isinstance(func, ScriptModule | ScriptFunction):
        return func
    args = () if example_inputs is None else _as_tuple(example_inputs)
    kwargs = dict(example_kwarg_inputs or {})
    if isinstance(example_inputs, dict):
        args, kwargs = (), dict(example_inputs)
    owner = getattr(func, "__self__", None)
    if isinstance(owner, Module) and getattr(func, "__name__", "") == "forward":
        func = owner
    if isinstance(func, Module):
        made: Any = _trace_methods(func, {"forward": (args, kwargs)})
    else:
        recorded = _record(func, "forward", args, kwargs)
        name = getattr(func, "__name__", type(func).__name__)
        made = ScriptFunction(func, graph_module=GraphModule(recorded.root, recorded.graph, name))
    if check_trace:
        for inputs in ((args, kwargs), *((_as_tuple(more), {}) for more in check_inputs or ())):
            _check(func, made, *inputs, check_tolerance)
    return made


def trace_module(
    mod: Module,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """Record several methods of a module.

    Args:
        mod: the module.
        inputs: a dict from the name of each method to its example arguments, a tuple or one tensor.
        optimize: accepted for compatibility.
        check_trace: whether to compare each recorded method with the original.
        check_inputs: accepted for compatibility.
        check_tolerance: the relative and the absolute difference that the comparison allows.
        strict: accepted for compatibility.
        _force_outplace: accepted for compatibility.
        _module_class: accepted for compatibility.
        _compilation_unit: accepted for compatibility.
        example_inputs_is_kwarg: whether the examples are dicts of arguments by name.
        _store_inputs: accepted for compatibility.
    Returns: a `ScriptModule` with the recorded methods; `mod` unchanged while PYTORCH_JIT=0 is set.
    Raises: AttributeError if `mod` is not a Module, `inputs` is not a dict, or `mod` lacks a method.
        TracingCheckError if the comparison fails.
    See also: jit.trace

    Example:
        >>> class Pair(flambeau.nn.Module):
        ...     def forward(self, x):
        ...         return x + 1
        ...     def inverse(self, x):
        ...         return x - 1
        >>> x = flambeau.ones(1)
        >>> traced = flambeau.jit.trace_module(Pair(), {"forward": x, "inverse": x})
        >>> traced.inverse(traced(x))
        tensor([1.])
    """
    if not _state._enabled:
        return mod
    if not isinstance(mod, Module):
        raise AttributeError(f"trace_module: expected a Module, got {type(mod).__name__}")
    if not isinstance(inputs, dict):
        raise AttributeError("trace_module: expected a dict from names of methods to examples")
    examples = {
        name: ((), dict(given)) if example_inputs_is_kwarg else (_as_tuple(given), {})
        for name, given in inputs.items()
    }
    made = _trace_methods(mod, examples)
    for name, (args, kwargs) in examples.items() if check_trace else ():
        _check(getattr(mod, name), getattr(made, name), args, kwargs, check_tolerance)
    return made


def _trace_methods(mod: Module, examples: dict[str, Any]) -> TopLevelTracedModule:
    recorded = {name: _record(mod, name, *given) for name, given in examples.items()}
    constants = [name for name in vars(mod) if name.startswith(("_tensor_constant", "_module_constant"))]
    first = recorded.get("forward") or next(iter(recorded.values()))
    made = TopLevelTracedModule(mod, first.graph, type(mod).__name__)
    _with_whole_state(made, mod)
    methods = {
        n: GraphModule(mod, r.graph, type(mod).__name__) for n, r in recorded.items() if n != "forward"
    }
    made.__dict__["_traced_methods"] = methods
    for name in constants:  # removes the constants that tracing added to the original
        mod.__dict__.pop(name, None)
    return made


def _check(program: Any, made: Any, args: Any, kwargs: Any, tolerance: float) -> None:
    state = flambeau.get_rng_state()
    expected = program(*_copied(args), **_copied(kwargs))
    flambeau.set_rng_state(state)
    found = made(*_copied(args), **_copied(kwargs))
    flambeau.set_rng_state(state)
    first, second = pytree.tree_leaves(expected), pytree.tree_leaves(found)
    if len(first) != len(second):
        raise TracingCheckError(
            f"jit.trace: expected {len(first)} values, got {len(second)}",
            f"expected {len(first)} values, got {len(second)}",
        )
    for a, b in zip(first, second, strict=True):
        if not isinstance(a, Tensor):
            continue
        same = a.shape == b.shape and flambeau.allclose(
            a.detach().to(flambeau.float64) if not a.is_complex() else a.detach(),
            b.detach().to(flambeau.float64) if not b.is_complex() else b.detach(),
            tolerance,
            tolerance,
            equal_nan=True,
        )
        if not same:
            difference = "trace: the recorded program and the original return different values"
            raise TracingCheckError(None, f"{difference}: {b} instead of {a}")


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs as a script while a program is traced, and as Python otherwise.

    Args:
        fn: the function.
    Returns: a function with the arguments and results of `fn`.

    Example:
        >>> @flambeau.jit.script_if_tracing
        ... def first(x):
        ...     return x[0]
        >>> first(flambeau.tensor([4.0, 5.0]))
        tensor(4.)
    """

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return script(fn)(*args, **kwargs) if is_tracing() else fn(*args, **kwargs)

    call.__original_fn = fn  # type: ignore[attr-defined]
    call.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return call


_script_if_tracing = script_if_tracing


def _get_trace_graph(
    f: Any, args: Any = (), kwargs: Any = None, strict: bool = True, _force_outplace: bool = False, **_: Any
) -> tuple[Any, Any]:
    recorded = _record(f, "forward", _as_tuple(args), dict(kwargs or {}))
    return recorded.graph, f(*_as_tuple(args), **(kwargs or {}))
