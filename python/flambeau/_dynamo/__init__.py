"""Capture of graphs under PyTorch's names; the code is in `flambeau.compiler.capture`.

Marks of sizes on tensors are accepted and have no effect: graphs are recorded anew for each size.
"""

from __future__ import annotations

from typing import Any

from flambeau._dynamo import config, eval_frame, exc, external_utils, utils
from flambeau._dynamo.eval_frame import OptimizedModule, is_dynamo_supported
from flambeau._dynamo.exc import InvalidBackend
from flambeau.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    registered,
    reset,
    substitute_in_graph,
)

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable",
    "disallow_in_graph", "eval_frame", "exc", "explain", "export", "external_utils", "forbid_in_graph",
    "graph_break", "is_compiling", "is_dynamo_supported", "list_backends", "lookup_backend",
    "mark_dynamic", "mark_static", "mark_static_address", "mark_unbacked", "maybe_mark_dynamic",
    "nonstrict_trace", "optimize", "register_backend", "reset", "run", "skip_frame",
    "substitute_in_graph", "utils",
]  # fmt: skip


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Record graphs that hold for any size of a tensor from the first call on.

    Args:
        t: an input of compiled functions.
        index: the dimension or dimensions that differ; all sizes of the tensor are left open.
        **bounds: accepted.
    Raises: IndexError if the tensor has no such dimension.
    """
    _mark(t, index, "DYNAMIC")
    t._dynamo_sizes = "dynamic"


def _mark(t: Any, index: Any, treatment: str) -> None:
    """Note how `ShapeEnv` treats dimensions of a tensor."""
    from flambeau.fx.experimental.symbolic_shapes import DimDynamic

    dims = index if isinstance(index, list | tuple) else range(t.dim()) if index is None else [index]
    for d in dims:
        t.size(d)
    marks = {d % t.dim(): DimDynamic[treatment] for d in dims}
    t._dynamo_dimensions = getattr(t, "_dynamo_dimensions", {}) | marks


def mark_static(t: Any, index: Any = None) -> None:
    """Record graphs for the present size of a tensor only.

    Args:
        t: an input of compiled functions; anything else is accepted without effect.
        index: the dimension or dimensions that `ShapeEnv` keeps as constants; None: all. Compiled functions
            hold all sizes.
    Raises: IndexError if the tensor has no such dimension.
    """
    if hasattr(t, "dim"):
        _mark(t, index, "STATIC")
        t._dynamo_sizes = "static"


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Accept a mark on a tensor; graphs do not depend on where tensors are in memory."""


maybe_mark_dynamic = mark_dynamic


def mark_unbacked(t: Any, index: Any, **options: Any) -> None:
    """Make a size a symbol without an example value in `ShapeEnv`; compiled functions leave all sizes open.

    Args:
        t: an input.
        index: the dimension or dimensions.
        **options: accepted.
    Raises: IndexError if the tensor has no such dimension.
    """
    mark_dynamic(t, index)
    _mark(t, index, "SIZE_LIKE_UNBACKED")


nonstrict_trace = allow_in_graph
disallow_in_graph = forbid_in_graph = disable


@disable
def graph_break(msg: str = "") -> None:
    """End the graph that is being captured; the program goes on with another one."""


@disable
def skip_frame(msg: str = "") -> None:
    """End the graph that is being captured."""


def run(fn: Any = None) -> Any:
    """Return the function: captured graphs run, and what is not captured runs as it is."""
    return fn if fn is not None else lambda function: function


def optimize(backend: Any = "inductor", *, nopython: bool = False, **options: Any) -> Any:
    """Return a decorator that compiles a function, as `flambeau.compile`.

    Args:
        backend: as in `flambeau.compile`.
        nopython: whether one graph must hold the whole function.
        **options: accepted.
    """
    import flambeau

    return flambeau.compile(backend=backend, fullgraph=nopython)


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Any = ()) -> Any:
    """Give a backend a name for `flambeau.compile`.

    Args:
        compiler_fn: a function of a graph module and example inputs; without it, a decorator is returned.
        name: the name; by default the function's.
        tags: accepted.
    """
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    registered[name or compiler_fn.__name__] = compiler_fn
    return compiler_fn


def lookup_backend(compiler_fn: Any) -> Any:
    """Return a backend by its name; functions are returned as they are."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    if compiler_fn not in registered:
        raise InvalidBackend(f"lookup_backend: expected one of {sorted(registered)}, got {compiler_fn!r}")
    return registered[compiler_fn]


def explain(f: Any, *args: Any, **kwargs: Any) -> Any:
    """Capture the graphs of a call and describe them: how many, their operators, why each ended.

    Args:
        f: a function or Module. With further arguments it is called with these; without, the result is a
            function that takes them.
    Returns: an object with ``graphs``, ``graph_count``, ``graph_break_count``, ``op_count``, and
        ``break_reasons``.
    """
    from flambeau.compiler.capture.frontend import explain

    return explain(f, *args, **kwargs)


def export(*args: Any, **kwargs: Any) -> Any:
    """Raise RuntimeError: captured graphs cannot be exported yet."""
    raise RuntimeError(
        "_dynamo.export: graphs cannot be exported yet; compile(backend=...) hands them to a backend"
    )
