"""Replacement of targets, and the sizes of nodes in bytes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.fx.passes.shape_prop import ShapeProp

__all__ = [
    "get_size_of_all_nodes",
    "get_size_of_node",
    "get_tensor_meta",
    "replace_target_nodes_with",
    "size_bytes",
]


class size_bytes(NamedTuple):
    """Bytes of a node: of its value, and of its value and parameters."""

    output_size: int
    total_size: int


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Any, new_op: str, new_target: Any
) -> None:
    """Turn all nodes of one kind and target into another, in place."""
    graph = Graph()
    known: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        made = graph.node_copy(node, lambda n: known[n])
        if node.op == old_op and node.target == old_target:
            made.op, made.target = new_op, new_target
        known[node] = made
    graph.set_codegen(fx_module.graph._codegen)
    fx_module.graph = graph


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Any] | None = None) -> None:
    """Set the attribute `size_bytes` of every node.

    Args:
        fx_module: the module.
        args: inputs for `ShapeProp`. Default: None, if `ShapeProp` has run already.
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)  # type: ignore[attr-defined]


def get_tensor_meta(node: Node) -> Any:
    """Return the `TensorMetadata` that `ShapeProp` recorded.

    Raises: RuntimeError if `ShapeProp` has not run.
    """
    found = node.meta.get("tensor_meta")
    if not found:
        raise RuntimeError(f"get_tensor_meta: Node {node} has no tensor metadata; run ShapeProp first")
    return found


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """Return the bytes of a node's value, and of the value and its module's parameters."""
    parameters = 0
    if node.op == "call_module":
        module = fx_module.get_submodule(str(node.target))
        parameters = sum(t.numel() * t.element_size() for t in (*module.parameters(), *module.buffers()))
    noted = get_tensor_meta(node)
    values = [noted] if hasattr(noted, "shape") else [part for part in noted if hasattr(part, "shape")]
    size = sum(math.prod(value.shape) * value.dtype.itemsize for value in values)
    return size_bytes(size, parameters + size)
