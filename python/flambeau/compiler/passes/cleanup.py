"""Removal of nodes that no result needs, and of nodes that compute the same as an earlier one."""

from __future__ import annotations

import operator
from typing import Any

import flambeau
from flambeau.compiler.ir.dependences import is_ordered, overload_of, written
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node


def remove_dead(graph: Graph) -> None:
    """Remove the calls without users that write to nothing and draw no random numbers."""
    for node in reversed(list(graph.nodes)):
        if node.op in ("placeholder", "output") or node.users:
            continue
        if not written(node) and not is_ordered(node):
            graph.erase_node(node)


def merge_equal(graph: Graph) -> None:
    """Make one node of calls of one operator with the same arguments.

    Only where the graph writes to no tensor: a write between two calls may change what they read. Calls whose
    results leave the graph stay, since the program may write to one of them.
    """
    if any(written(node) for node in graph.nodes):
        return
    storages = {node: _storage(node) for node in graph.nodes}  # held, so that an id stays one storage's
    outside = {id(storages[node]) for node in _outputs(graph)}
    seen: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if not _is_repeatable(node) or id(storages[node]) in outside:
            continue
        try:
            first = seen.setdefault((node.target, _key(node.args), _key(node.kwargs)), node)
        except TypeError:  # an argument without a hash
            continue
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _outputs(graph: Graph) -> list[Node]:
    return next(node for node in reversed(graph.nodes) if node.op == "output").all_input_nodes


def _storage(node: Node) -> Any:
    """The memory of a node's result; None for several results."""
    value = node.meta.get("val")
    return None if value is None else value.untyped_storage()


def _is_repeatable(node: Node) -> bool:
    if node.target is operator.getitem:
        return True
    overload = overload_of(node)
    if overload is None or is_ordered(node):
        return False
    return any(isinstance(argument, Node) for argument in node.all_input_nodes)


def _key(value: Any) -> Any:
    """A value as a key of a dict that tells 1, 1.0 and True apart."""
    if isinstance(value, list | tuple):
        return (type(value), *map(_key, value))
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in sorted(value.items()))
    if isinstance(value, float):
        return float, repr(value)
    if isinstance(value, Node | flambeau.dtype | flambeau.device):
        return value
    return type(value), value
