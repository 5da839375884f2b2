"""Graphs that change the state of the thread: an exception in them restores the state at their beginning.

A region (`no_grad`, autocast) becomes two calls, at its beginning and at its end. If an operator between them
raises an exception, the second call does not run, whereas the program's ``with`` would restore the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau.compiler.aot.state import ThreadState
from flambeau.compiler.capture import known
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule


def changes_state(graph: Graph) -> bool:
    """Whether a graph calls functions that change the state of the thread."""
    return any(
        node.op == "call_function" and getattr(node.target, "__name__", "") in known.STATE
        for node in graph.nodes
    )


def restored(state: ThreadState) -> None:
    """Restore an earlier state of the thread."""
    state.enter()
    if state.nesting == 0:
        _C.clear_autocast_cache()


def restoring(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that restores the state of the thread if `run` raises an exception."""

    def guarded(*args: Any, **kwargs: Any) -> Any:
        state = ThreadState.now()
        try:
            return run(*args, **kwargs)
        except BaseException:
            restored(state)
            raise

    guarded.__dict__.update(run.__dict__)
    return guarded


class RestoringModule(GraphModule):
    """The module of a graph that changes the state of the thread."""

    def recompile(self) -> Any:
        """Generate the code of the graph again, and return it."""
        made = super().recompile()
        kind: Any = type(self)
        kind.forward = restoring(kind.forward)
        return made


def module_of(root: Any, graph: Graph, name: str) -> GraphModule:
    """Return the module of a function that is recorded inside a graph.

    Args:
        root: provides the module's attributes.
        graph: the function's graph.
        name: the name of the module's class.
    """
    kind = RestoringModule if changes_state(graph) else GraphModule
    return kind(root, graph, name)
