"""Text about graphs for logs."""

from __future__ import annotations

from typing import Any

from flambeau.fx.graph_module import GraphModule


class _Lazily:
    """A text that is computed when it is printed."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def __str__(self) -> str:
        return str(self.make())


def lazy_format_graph_code(name: str, gm: GraphModule, maybe_id: int | None = None, **kwargs: Any) -> Any:
    """Return an object that shows a module's code under a title when a log prints it."""
    title = f"TRACED GRAPH\n {name if maybe_id is None else f'{name} {maybe_id}'}"
    return _Lazily(lambda: f"{title}\n{gm.print_readable(print_output=False)}")


def _format_graph_code(name: str, filename: str, graph_str: str) -> str:
    return f"TRACED GRAPH\n {name} {filename} {graph_str}\n"


def first_call_function_nn_module_stack(graph: Any) -> Any:
    """Return the module stack of the graph's first function call, or None."""
    for node in graph.nodes:
        if node.op == "call_function" and "nn_module_stack" in node.meta:
            return node.meta["nn_module_stack"]
    return None


def get_node_context(node: Any, num_nodes: int = 2) -> str:
    """Return a node and the nodes before it, one per line."""
    lines: list[str] = []
    while node.op != "root" and len(lines) <= num_nodes:
        lines.append(str(node.format_node()))
        node = node.prev
    return "\n".join(reversed(lines))
