"""Groups of nodes that came from one module or function of the program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """Nodes of one call in the program.

    Attributes:
        nodes: the nodes.
        source: the class or function that they came from.
        input_nodes: nodes outside the group that the group uses.
        output_nodes: nodes of the group that other nodes use.
        params: the parameters that they read.
    """

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def _source_of(node: Node) -> tuple[str, Any] | None:
    """The call that a node came from: a name and the class or function."""
    stack = node.meta.get("source_fn_stack")
    if stack:
        name, source = stack[-1]
        return str(name), source
    modules = node.meta.get("nn_module_stack")
    if modules:
        name, (_, source) = next(reversed(modules.items()))
        return str(name), source
    return (node.name, node.target) if node.op == "call_function" else None


def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """Return the groups of nodes that came from the wanted classes and functions.

    Args:
        graph: the graph.
        wanted_sources: the classes and functions.
        filter_fn: a group is omitted if this function returns False for one of its nodes.
    """
    groups: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        found = _source_of(node)
        if found is not None and found[1] in wanted_sources:
            groups.setdefault(found[1], {}).setdefault(found[0], []).append(node)
    result = {source: [_group(nodes, source) for nodes in named.values()] for source, named in groups.items()}
    if filter_fn is None:
        return result
    kept = {s: [g for g in found if all(map(filter_fn, g.nodes))] for s, found in result.items()}
    return {source: found for source, found in kept.items() if found}


def _group(nodes: list[Node], source: Any) -> SourcePartition:
    inside = set(nodes)
    inputs: dict[Node, None] = {}
    for node in nodes:
        inputs.update(dict.fromkeys(used for used in node.all_input_nodes if used not in inside))
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    parameters = [node for node in (*nodes, *inputs) if node.op == "get_attr"]
    needed = [node for node in inputs if node.op != "get_attr"]
    return SourcePartition(nodes, source, needed, outputs, parameters)


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether the second group uses a value of the first."""
    return any(node in subgraph1.nodes for node in subgraph2.input_nodes)
