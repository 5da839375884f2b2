"""Compilation of programs: `compile` captures graphs and passes them to a backend.

The default backend computes chains of pointwise operators in one loop over blocks that stay in the cache.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeVar

from flambeau._loading.lazy import attributes
from flambeau.compiler import config
from flambeau.compiler._stance import set_stance

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "config", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance",
    "substitute_in_graph", "wrap_numpy",
]  # fmt: skip

F = TypeVar("F")

# Names that programs use for backends that flambeau does not have.
BACKENDS = ("cudagraphs", "tvm", "onnxrt", "openxla")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_told = False


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """Return a function or Module whose calls run captured graphs that a backend compiled.

    The first call runs the program and records its operations on tensors as graphs; the backend compiles
    each graph. Later calls with equal Python values and tensors of equal size, dtype and layout run the
    compiled graphs. Code that cannot be part of a graph runs uncompiled, between two graphs.

    Args:
        model: a function or Module; without it, a decorator is returned.
        fullgraph: whether one graph must hold the whole function.
        dynamic: True: one graph serves all sizes of the tensors that the function reads, except parameters.
            None: one graph serves all sizes of the tensors whose sizes have differed between calls. False:
            each size has its own graphs.
        backend: a function of a ``fx.GraphModule`` and its example inputs that returns a function, or the
            name of a registered backend. The default "inductor" computes chains of pointwise operators in
            one loop, forward and backward; a function without such chains runs uncompiled after its first
            call. "eager" runs graphs as they were captured. For the backends "cudagraphs", "tvm", "onnxrt"
            and "openxla", which flambeau does not have, the model is returned unchanged, with a warning
            once per process.
        mode: "default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs".
        options: keyword ``options`` of the backend; only without `mode`.
        name: accepted for compatibility.
        disable: whether to return the model unchanged.
        recompile_limit: how often a function may be recorded. Default: ``_dynamo.config.recompile_limit``.
        isolate_recompiles: accepted for compatibility; each call of `compile` has its own limit.
        shapes_spec: accepted for compatibility.
    Returns: a function, or a Module that shares the parameters of `model`.
    Raises: RuntimeError if both `mode` and `options` are given, or for a mode or backend that does not exist.
        TypeError if `model` cannot be called. Calls raise ``_dynamo.exc.Unsupported`` if `fullgraph` is True
        and the function needs several graphs, and ``BackendCompilerFailed`` for an error of the backend.

    Example:
        >>> def show(graph, inputs):
        ...     print([node.name for node in graph.graph.nodes])
        ...     return graph.forward
        >>> flambeau.compiler.compile(lambda x: (x + 1).relu(), backend=show)(flambeau.ones(2))
        ['l_x_', 'add', 'relu', 'output']
        tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError("compile: expected mode or options, got both")
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"compile: expected a mode of {list(MODES)}, got {mode!r}")
    known = {*BACKENDS, *registered}
    if not callable(backend) and backend not in known:
        raise RuntimeError(
            f"compile: expected backend to be a function or one of {sorted(known)}, got {backend!r}"
        )
    if model is not None and not callable(model):
        raise TypeError(f"compile: expected a function or Module, got {type(model).__name__}")
    chosen = backend if callable(backend) else registered.get(backend)

    def decorate(function: Any) -> Any:
        if disable:
            return function
        if chosen is None:
            _tell()
            return function
        from flambeau.compiler.capture.frontend import compiled

        return compiled(function, chosen, fullgraph, mode, options, recompile_limit, dynamic)

    return decorate if model is None else decorate(model)


def _run_as_captured(graph: Any, inputs: list[Any]) -> Callable[..., Any]:
    """Run graphs as they were captured."""
    run: Callable[..., Any] = graph.forward
    return run


def _fuse(graph: Any, inputs: list[Any], **options: Any) -> Callable[..., Any]:
    """Run pointwise operators of graphs in fused groups."""
    from flambeau.compiler.backend import fuse

    return fuse(graph, inputs, **options)


_fuse.is_per_size = True  # type: ignore[attr-defined]

# Backends by name, for `compile`; `flambeau._dynamo.register_backend` adds to them.
registered: dict[str, Callable[..., Any]] = {
    "inductor": _fuse,
    "eager": _run_as_captured,
    "aot_eager": _run_as_captured,
}


def _tell() -> None:
    global _told
    if not _told:
        _told = True
        warnings.warn(
            "compile: expected a backend that flambeau has, got another one; the program runs uncompiled",
            stacklevel=4,
        )


def is_compiling() -> bool:
    """Tell whether a graph is being captured: True while `compile` records the calling function.

    Returns: a bool.

    Example:
        >>> flambeau.compiler.is_compiling()
        False
    """
    return False  # in the functions that it interprets, capture replaces this call by True


def is_dynamo_compiling() -> bool:
    """Tell whether a graph is being captured from bytecode, as `is_compiling` does.

    Returns: a bool.

    Example:
        >>> flambeau.compiler.is_dynamo_compiling()
        False
    """
    return False


def is_exporting() -> bool:
    """Tell whether a program is being exported; flambeau has no export.

    Returns: False.

    Example:
        >>> flambeau.compiler.is_exporting()
        False
    """
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keep a function out of graphs: a graph ends where the function is called, and it runs uncompiled.

    Args:
        fn: the function or Module; without it, a decorator is returned. Modules are returned unchanged.
        recursive: accepted for compatibility; the functions that `fn` calls are always excluded too.
        reason: accepted for compatibility; a text for the reader.
    Returns: a function that calls `fn`.

    Example:
        >>> flambeau.compiler.disable(lambda x: x + 1)(2)
        3
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if not isinstance(fn, FunctionType | MethodType):
        return fn

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    run._torchdynamo_disable = True  # type: ignore[attr-defined]
    return run


def allow_in_graph(fn: Any) -> Any:
    """Record each call of a function as one node, without capturing its operators.

    Args:
        fn: a function of tensors and constants, or a list of such functions.
    Returns: `fn`; for a list, a new list of its functions.
    Raises: AssertionError if `fn` cannot be called.

    Example:
        >>> def triple(x):
        ...     return x * 3
        >>> flambeau.compiler.allow_in_graph(triple) is triple
        True
    """
    if isinstance(fn, list | tuple):
        return [allow_in_graph(one) for one in fn]
    if not callable(fn):
        raise AssertionError(f"allow_in_graph: expected a function, got {type(fn).__name__}")
    if isinstance(fn, FunctionType):
        fn._torchdynamo_in_graph = True  # type: ignore[attr-defined]
    return fn


def assume_constant_result(fn: F) -> F:
    """Record the result of a function as a constant: it is called once, while the graph is recorded.

    Args:
        fn: the function.
    Returns: `fn`.

    Example:
        >>> def size():
        ...     return 4
        >>> flambeau.compiler.assume_constant_result(size)()
        4
    """
    if isinstance(fn, FunctionType):
        fn._torchdynamo_constant = True  # type: ignore[attr-defined]
    return fn


def substitute_in_graph(original_fn: Any, *, can_constant_fold_through: bool = False, **options: Any) -> Any:
    """Replace a function by a Python function with the same parameters while graphs are captured.

    Args:
        original_fn: the function that programs call, for example one written in C.
        can_constant_fold_through: accepted for compatibility.
        **options: accepted for compatibility.
    Returns: a decorator for the function that replaces `original_fn`.

    Example:
        >>> import math
        >>> @flambeau.compiler.substitute_in_graph(math.dist)
        ... def dist(p, q):
        ...     return sum((a - b) ** 2 for a, b in zip(p, q)) ** 0.5
    """

    def decorate(replacement: Any) -> Any:
        from flambeau.compiler.capture.known import SUBSTITUTES

        SUBSTITUTES[original_fn] = replacement
        return replacement

    return decorate


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors that runs a function of NumPy arrays.

    Args:
        fn: a function that takes and returns arrays; other arguments and results are passed on unchanged.
    Returns: a function that converts tensors to arrays and results to tensors; it records no gradients.

    Example:
        >>> flambeau.compiler.wrap_numpy(lambda x: x + 1)(flambeau.ones(2))
        tensor([2., 2.])
    """
    import flambeau
    from flambeau.utils._pytree import tree_map_only

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        import numpy

        args, kwargs = tree_map_only(flambeau.Tensor, lambda t: t.numpy(), (args, kwargs))
        return tree_map_only((numpy.ndarray, numpy.generic), flambeau.as_tensor, fn(*args, **kwargs))

    return run


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Return the names of the backends that `compile` accepts.

    Args:
        exclude_tags: kinds of backends to leave out; "debug" means those that run graphs as they were
            captured.
    Returns: a sorted list of names.

    Example:
        >>> "eager" in flambeau.compiler.list_backends(exclude_tags=())
        True
    """
    hidden = ("eager", "aot_eager") if "debug" in (exclude_tags or ()) else ()
    return sorted(name for name in registered if name not in hidden)


def reset() -> None:
    """Delete all captured graphs, so that functions are recorded again.

    Returns: None.

    Example:
        >>> flambeau.compiler.reset()
    """
    import sys

    programs = sys.modules.get("flambeau.compiler.capture.programs")
    if programs is not None:
        programs.reset()


def cudagraph_mark_step_begin() -> None:
    """Mark the beginning of an iteration; the mark has no effect.

    Returns: None.

    Example:
        >>> flambeau.compiler.cudagraph_mark_step_begin()
    """


__getattr__, __dir__ = attributes(__name__)
