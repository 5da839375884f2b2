"""The checks of `Graph.lint`, and the table of `Graph.print_tabular`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flambeau.fx.graph import Graph
    from flambeau.fx.node import Node

_MISSING = object()


def check_graph(graph: Graph) -> None:
    """Check names, order, arguments and, where the module is known, targets."""
    seen: set[Node] = set()
    names: set[str] = set()
    for node in graph.nodes:
        if node.graph is not graph:
            raise RuntimeError(f"lint: expected nodes of this Graph, got {node} of another")
        if node.name in names:
            raise RuntimeError(f"lint: a second node redefined name {node.name}")
        _check_arguments(node, seen)
        _check_users(node)
        seen.add(node)
        names.add(node.name)
        if graph.owning_module is not None:
            _check_path(graph.owning_module, node)


def _check_arguments(node: Node, seen: set[Node]) -> None:
    for used in node.all_input_nodes:
        if used.graph is not node.graph:
            raise RuntimeError(
                f"lint: expected arguments of this Graph for {node}, got {used} of another; node_copy maps "
                "arguments to this graph's nodes by its arg_transform"
            )
        if used not in seen:
            raise RuntimeError(f"lint: {node} uses {used} before it has been defined: move one of them")


def _check_users(node: Node) -> None:
    for user in node.users:
        if node not in user._input_nodes:
            raise RuntimeError(
                f"lint: Node '{user}' is recorded as a user of '{node}', which it does not use; change "
                "arguments by node.args"
            )


def _check_path(module: Any, node: Node) -> None:
    if node.op not in ("get_attr", "call_module"):
        return
    found, read = module, ""
    for name in str(node.target).split("."):
        following = getattr(found, name, _MISSING)
        if following is _MISSING:
            where = f"attribute '{name}' of '{read}'" if read else f"attribute '{name}'"
            raise RuntimeError(f"lint: the target {node.target} of {node} references nonexistent {where}")
        found, read = following, f"{read}.{name}".lstrip(".")
    if node.op == "call_module" and not callable(found):
        raise RuntimeError(
            f"lint: the target {node.target} of {node}: expected a Module, got {type(found).__name__}"
        )


def table_of(graph: Graph) -> str:
    """Return a table of all nodes, aligned in columns."""
    rows: list[list[str]] = [["opcode", "name", "target", "args", "kwargs"]]
    rows += [[n.op, n.name, str(n.target), str(n.args), str(n.kwargs)] for n in graph.nodes]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    rows.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
