"""A graph as plain data, for pickles: nodes refer to each other by number."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from flambeau.fx.node import Node, map_aggregate

if TYPE_CHECKING:
    from flambeau.fx.graph import Graph


class _NodeAt:
    """The index of a node in its graph."""

    def __init__(self, place: int) -> None:
        self.place = place


class _Operator:
    """An operator of `flambeau.ops`, by its names."""

    def __init__(self, path: str) -> None:
        self.path = path

    def find(self) -> Any:
        found: Any = importlib.import_module("flambeau.ops")
        for name in self.path.split("."):
            found = getattr(found, name)
        return found


def _target_state(target: Any) -> Any:
    packet = getattr(target, "_packet", target)
    if isinstance(target, str) or not hasattr(packet, "_qualified"):
        return target
    overload = f".{target._overloadname}" if packet is not target else ""
    return _Operator(f"{packet._qualified}{overload}")


def state_of(graph: Graph) -> dict[str, Any]:
    """Return the state from which `restored_graph` makes a graph; from meta it keeps only plain values."""
    places = {node: _NodeAt(place) for place, node in enumerate(graph.nodes)}

    def shown(leaf: Any) -> Any:
        return places[leaf] if isinstance(leaf, Node) else _target_state(leaf)

    nodes = [
        (
            node.name,
            node.op,
            _target_state(node.target),
            map_aggregate(node.args, shown),
            map_aggregate(node.kwargs, shown),
            node.type,
            _plain_meta(node.meta),
        )
        for node in graph.nodes
    ]
    return {
        "nodes": nodes,
        "tracer_cls": graph._tracer_cls if _is_importable(graph._tracer_cls) else None,
        "tracer_extras": graph._tracer_extras,
        "codegen": graph._codegen,
    }


def _is_importable(cls: Any) -> bool:
    return cls is not None and "<locals>" not in cls.__qualname__ and cls.__module__ != "__main__"


def _plain_meta(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the entries without nodes, modules and values, which may be large or unpicklable."""
    return {key: value for key, value in meta.items() if isinstance(value, str | int | float | bool)}


def restored_graph(cls: type[Graph], state: dict[str, Any]) -> Graph:
    """Make a graph from its state."""
    graph = cls(tracer_cls=state["tracer_cls"], tracer_extras=state["tracer_extras"])
    made: list[Node] = []

    def found(leaf: Any) -> Any:
        if isinstance(leaf, _NodeAt):
            return made[leaf.place]
        return leaf.find() if isinstance(leaf, _Operator) else leaf

    for name, op, target, args, kwargs, type_expr, meta in state["nodes"]:
        node = graph.create_node(
            op, found(target), map_aggregate(args, found), map_aggregate(kwargs, found), name, type_expr
        )
        node.meta.update(meta)
        made.append(node)
    graph._codegen = state["codegen"]
    return graph
