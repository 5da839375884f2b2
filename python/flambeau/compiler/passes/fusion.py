"""Groups of pointwise operators that are worth running together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau.compiler.ir.dependences import Dependences, overload_of
from flambeau.compiler.ir.open_numbers import has_open
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

_MOST_ARRAYS = 16  # inputs and results of one group: their blocks share the L1 cache
_MOST_STEPS = 64
_LEAST_ELEMENTS = 4096


@dataclass
class Group:
    """Nodes that one loop computes.

    Args:
        nodes: in the order of the graph.
        inputs: nodes outside of the group whose results it reads.
        outputs: nodes of the group that others read.
    """

    nodes: list[Node]
    inputs: list[Node]
    outputs: list[Node]


def is_fusable(node: Node) -> bool:
    """Whether a node is a pointwise operator with fixed numbers whose result is a new tensor of the CPU."""
    return is_pointwise(node) and not has_open(node)


def is_pointwise(node: Node) -> bool:
    """Whether a node is a pointwise operator whose result is a new tensor of the CPU."""
    known = node.meta.get("is_pointwise")
    if known is None:
        known = node.meta["is_pointwise"] = _is_pointwise(node)
    return bool(known)


def _is_pointwise(node: Node) -> bool:
    overload, value = overload_of(node), node.meta.get("val")
    if overload is None or not overload._entry or value is None or overload._schema.is_mutable:
        return False
    facts = flambeau._C._operator_facts(overload._entry)
    if facts is None or not facts[0] or facts[1]:
        return False
    return value.numel() > 0 and _shares_nothing(node)


def _shares_nothing(node: Node) -> bool:
    storage = node.meta["val"].untyped_storage()
    return all(
        n.meta["val"].untyped_storage() is not storage
        for n in node.all_input_nodes
        if n.meta.get("val") is not None
    )


def _joins(node: Node, earlier: Node) -> bool:
    """Whether a node may be in one loop with a node whose result it reads."""
    reads = earlier in node.all_input_nodes
    return reads and is_fusable(node) and is_fusable(earlier) and _size(node) == _size(earlier)


def _size(node: Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].size())


def levels_of(
    graph: Graph,
    dependences: Dependences,
    joins: Callable[[Node, Node], bool],
    may_rise: Callable[[Node], bool],
) -> dict[Node, int]:
    """Return a number for each node that grows along every edge whose nodes cannot be in one loop.

    So nodes of one level are connected by edges inside of loops alone: groups within a level cannot need
    each other in a circle. A node that may be in a loop has the highest number that its users allow.

    Args:
        graph: the graph.
        dependences: its edges.
        joins: whether a node can be in one loop with an earlier one.
        may_rise: whether a node can be in a loop.
    """
    levels: dict[Node, int] = {}
    after: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        levels[node] = max((levels[e] + (not joins(node, e)) for e in dependences.before[node]), default=0)
        for earlier in dependences.before[node]:
            after.setdefault(earlier, []).append(node)
    for node in reversed(list(graph.nodes)):
        if may_rise(node) and node in after:
            levels[node] = min(levels[user] - (not joins(user, node)) for user in after[node])
    return levels


def boundary(nodes: list[Node]) -> Group:
    """Return the group of nodes with its inputs and outputs."""
    inside = set(nodes)
    inputs = list(dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in inside))
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    return Group(nodes, inputs, outputs)


def groups_of(graph: Graph, dependences: Dependences) -> list[Group]:
    """Return the groups of a graph: pointwise operators of one size and level that share operands.

    A group is divided where it has more nodes or arrays than one loop takes.
    """
    levels = levels_of(graph, dependences, _joins, is_fusable)
    found: dict[Node, list[Node]] = {}
    readers: dict[Any, Node] = {}
    for node in graph.nodes:
        if not is_fusable(node):
            continue
        found[node] = [node]
        for argument in node.all_input_nodes:
            for other in (argument, readers.setdefault((argument, levels[node], _size(node)), node)):
                if levels.get(other) == levels[node] and other in found and _size(other) == _size(node):
                    join(found, other, node)
    place = {node: i for i, node in enumerate(graph.nodes)}
    unique = {id(nodes): sorted(nodes, key=place.__getitem__) for nodes in found.values()}
    return [group for nodes in unique.values() for group in _divided(nodes)]


def join(found: dict[Node, list[Node]], one: Node, two: Node) -> None:
    """Merge the groups of two nodes, which `found` gives by node."""
    larger, smaller = sorted((found[one], found[two]), key=len, reverse=True)
    if larger is smaller:
        return
    larger += smaller
    for node in smaller:
        found[node] = larger


def _divided(nodes: list[Node]) -> list[Group]:
    groups: list[Group] = []
    part: list[Node] = []
    for node in nodes:
        grown = boundary([*part, node])
        if part and (len(part) == _MOST_STEPS or len(grown.inputs) + len(grown.outputs) > _MOST_ARRAYS):
            groups.append(boundary(part))
            part = []
        part.append(node)
    groups.append(boundary(part))
    return [group for group in groups if len(group.nodes) > 1]


def pays(group: Group) -> bool:
    """Whether one loop for a group is quicker than its operators one by one.

    Below some thousand elements what single operators leave in memory is in the cache as well.
    """
    return bool(group.nodes[0].meta["val"].numel() >= _LEAST_ELEMENTS)
