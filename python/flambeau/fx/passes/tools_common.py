"""Queries about nodes and orders of nodes that several passes share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau import Tensor
from flambeau.fx._names import qualified_name
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.nn import Module

__all__ = [
    "get_acc_ops_name",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]

Tensors = tuple[Tensor, ...] | list[Tensor]
TensorOrTensors = Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k: Any) -> str:
    """Return the name of an operator, without the package of an accelerator."""
    return k if isinstance(k, str) else str(qualified_name(k))


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """Return the target of a call: the class of a module, or the name of a function or method.

    Raises: AssertionError for a node that is not a call.
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"get_node_target: expected a call, got {node.op}")
    if node.op == "call_module":
        module = submodules[str(node.target)]
        cls = getattr(module, "_base_class_origin", type(module))
        return f"{cls.__module__}.{cls.__qualname__}"
    return str(node.target) if node.op == "call_method" else node._pretty_print_target(node.target)


def is_node_output_tensor(node: Node) -> bool:
    """Whether ShapeProp found that the node's value is a tensor."""
    kind = node.meta.get("type")
    return isinstance(kind, type) and issubclass(kind, Tensor)


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Sort the nodes topologically, in place.

    Raises: RuntimeError if the graph has a cycle.
    """
    done: set[Node] = set()
    order: list[Node] = []
    waiting = list(gm.graph.nodes)
    while waiting:
        ready = [node for node in waiting if all(used in done for used in node.all_input_nodes)]
        if not ready:
            raise RuntimeError(
                "legalize_graph: the input graph has cycles, so no order of its nodes is right"
            )
        order += ready
        done |= set(ready)
        waiting = [node for node in waiting if node not in done]
    _reorder(gm.graph, order)
    return gm


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Sort the nodes like `legalize_graph`, but move only the nodes that precede a node they use."""
    done: set[Node] = set()
    waiting: list[Node] = []
    order: list[Node] = []

    def take(node: Node) -> None:
        done.add(node)
        order.append(node)

    for node in gm.graph.nodes:
        if any(used not in done for used in node.all_input_nodes):
            waiting.append(node)
            continue
        take(node)
        while ready := [n for n in waiting if all(used in done for used in n.all_input_nodes)]:
            for following in ready:
                waiting.remove(following)
                take(following)
    if waiting:
        raise RuntimeError("stable_topological_sort: the input graph has cycles")
    _reorder(gm.graph, order)
    return gm


def _reorder(graph: Graph, order: list[Node]) -> None:
    for node in order:
        graph._root.prepend(node)
