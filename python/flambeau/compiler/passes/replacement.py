"""Replacement of a group of nodes by one node."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from flambeau.compiler.ir.dependences import Dependences
from flambeau.compiler.passes.fusion import Group
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node


def users_between(graph: Graph, dependences: Dependences, group: Group) -> list[Node] | None:
    """Return the nodes among those of a group that must run after it; None if the group needs one of them."""
    inside, after = set(group.nodes), set(group.nodes)
    moved, is_between = list[Node](), False
    for node in graph.nodes:
        is_between |= node is group.nodes[0]
        if is_between and dependences.before[node] & after:
            if node in inside and dependences.before[node] & set(moved):
                return None
            if node not in inside:
                moved.append(node)
                after.add(node)
        if node is group.nodes[-1]:
            return moved
    raise AssertionError("slice_rows: expected the nodes of a group in the order of the graph")


def replace(
    graph: Graph,
    dependences: Dependences,
    group: Group,
    moved: list[Node],
    function: Callable[..., list[Any]],
) -> None:
    """Call a function of a group's inputs that returns its outputs instead of the group's nodes.

    Args:
        graph: the graph; `dependences` follow it.
        dependences: its edges.
        group: what is replaced.
        moved: what `users_between` gives.
        function: that the new node calls.
    """
    inside, at = set(group.nodes), group.nodes[-1]
    with graph.inserting_after(at):
        call = graph.call_function(function, tuple(group.inputs))
    call.name = graph._graph_namespace.create_name("rows", None)
    call.meta["rows"] = None
    at = call
    items = dict[Node, Node]()
    for i, node in enumerate(group.outputs):
        with graph.inserting_after(at):
            at = items[node] = graph.call_function(operator.getitem, (call, i))
        at.meta["val"] = node.meta["val"]
        for user in node.replace_all_uses_with(at, delete_user_cb=lambda user: user not in inside):
            user.meta.pop("rows", None)  # it names its arguments
    for node in moved:
        at.append(node)
        at = node
    before = dependences.before
    before[call] = {n for node in group.nodes for n in before[node]} - inside
    for node in items.values():
        before[node] = {call}
    for node in graph.nodes:
        if node not in inside and before[node] & inside:
            before[node] = {items.get(n, call) for n in before[node] if n in inside} | (before[node] - inside)
    for node in reversed(group.nodes):
        del before[node]
        graph.erase_node(node)


def graph_of(group: Group) -> Graph:
    """Return the graph of a group alone."""
    graph = Graph()
    made = {node: graph.placeholder(node.name) for node in group.inputs}
    for node, placeholder in made.items():
        placeholder.meta["val"] = node.meta["val"]
    for node in group.nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
        made[node].meta = {"val": node.meta.get("val")}
    graph.output([made[node] for node in group.outputs])
    return graph
