"""Which nodes must run before which: results, memory that is written, random numbers, calls on objects."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import flambeau
from flambeau._operators import higher_order
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node
from flambeau.ops import Overload
from flambeau.utils import _pytree as pytree

_INPUTS = -1  # inputs may share memory with each other


def overload_of(node: Node) -> Any:
    """Return the overload that a node calls; None for other nodes."""
    target = node.target
    return target if isinstance(target, Overload) and hasattr(target, "_schema") else None


def is_random(node: Node) -> bool:
    """Whether a node draws random numbers."""
    if node.op == "call_function" and node.target is higher_order.drawn:
        return True
    facts = flambeau._C._operator_facts(overload_of(node)._entry) if overload_of(node) else None
    return facts is not None and bool(facts[1])


def is_ordered(node: Node) -> bool:
    """Whether a node keeps its place among others of the kind and runs exactly once.

    It draws random numbers, or takes an object of a class of C++, which it may read and change.
    """
    return is_random(node) or any(n.meta.get("is_object", False) for n in node.all_input_nodes)


def written(node: Node) -> list[Node]:
    """Return the arguments that a node writes to."""
    overload = overload_of(node)
    if overload is None:
        return []
    facts = flambeau._C._operator_facts(overload._entry)
    if facts is not None and facts[2]:
        return list(node.all_input_nodes)
    if not overload._schema.is_mutable:
        return []
    found: list[Any] = []
    for place, argument in enumerate(overload._schema.arguments):
        if not argument.is_write:
            continue
        given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        found += [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, Node)]
    return found


class Dependences:
    """Edges between the nodes of a graph of operators.

    Args:
        graph: its nodes have tensors without memory in ``meta["val"]``, which tell what shares memory.

    `before[node]` is the set of nodes that must run before a node.
    """

    def __init__(self, graph: Graph) -> None:
        self.before: dict[Node, set[Node]] = {}
        self._storages: dict[Node, int] = {}
        self._kept: list[Any] = []  # so that an id stays one storage's
        self._inputs: set[int] = set()
        writers: dict[int, Node] = {}
        readers: dict[int, list[Node]] = defaultdict(list)
        last_ordered: Node | None = None
        for node in graph.nodes:
            needs = self.before[node] = set(node.all_input_nodes)
            self._storages[node] = self._storage_of(node)
            if node.op in ("placeholder", "output"):
                continue
            stores = {self._storages[n] for n in written(node)}
            for storage in {self._storages[n] for n in node.all_input_nodes} | stores:
                if storage in writers:
                    needs.add(writers[storage])
                if storage in stores:
                    needs.update(readers.pop(storage, ()))
                    writers[storage] = node
                readers[storage].append(node)
            if is_ordered(node):
                needs.update({last_ordered} if last_ordered is not None else ())
                last_ordered = node
            needs.discard(node)

    def _storage_of(self, node: Node) -> int:
        if node.op in ("placeholder", "get_attr"):
            value = node.meta.get("val")
            if value is not None:
                self._kept.append(value.untyped_storage())
                self._inputs.add(id(self._kept[-1]))
            return _INPUTS
        value = node.meta.get("val")
        if value is None:
            return id(node)  # several results: each is a node of its own
        self._kept.append(value.untyped_storage())
        place = id(self._kept[-1])
        return _INPUTS if place in self._inputs else place
