"""Names of PyTorch's capture of graphs that libraries touch. No graph is captured yet.

Marks on tensors and functions are accepted and do nothing; what would capture a graph raises RuntimeError.
"""

from __future__ import annotations

from typing import Any

from flambeau._dynamo import config, eval_frame, exc, external_utils, utils
from flambeau._dynamo.eval_frame import OptimizedModule, is_dynamo_supported
from flambeau.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
    substitute_in_graph,
)

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "disallow_in_graph",
    "eval_frame", "exc", "explain", "export", "external_utils", "forbid_in_graph", "graph_break",
    "is_compiling",
    "is_dynamo_supported", "list_backends", "mark_dynamic", "mark_static", "mark_static_address",
    "mark_unbacked", "maybe_mark_dynamic", "nonstrict_trace", "optimize", "reset", "run", "skip_frame",
    "substitute_in_graph", "utils",
]  # fmt: skip


def _marks(names: str) -> dict[str, Any]:
    def mark(t: Any, *details: Any, **options: Any) -> None:
        """Accept a mark on a tensor for graph capture; it has no effect."""

    return dict.fromkeys(names.split(), mark)


globals().update(_marks("mark_dynamic mark_static mark_static_address mark_unbacked maybe_mark_dynamic"))

disallow_in_graph = forbid_in_graph = nonstrict_trace = run = allow_in_graph


def graph_break(msg: str = "") -> None:
    """Do nothing: no graph is being captured that could end here."""


skip_frame = graph_break


def optimize(backend: Any = "inductor", *, nopython: bool = False, **options: Any) -> Any:
    """Return a decorator that returns its function unchanged, like `flambeau.compile`."""
    import flambeau

    return flambeau.compile(backend=backend, fullgraph=nopython)


def _capture(*args: Any, **kwargs: Any) -> Any:
    """Raise RuntimeError: graph capture is not built yet."""
    raise RuntimeError(
        "_dynamo: graphs cannot be captured from bytecode; use flambeau.fx.symbolic_trace, which traces calls"
    )


explain = export = _capture
