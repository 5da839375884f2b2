"""split_module: a GraphModule of GraphModules, one for each part of a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flambeau.fx._attributes import get_attribute
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.fx.proxy import Proxy
from flambeau.nn import Module

__all__ = ["Partition", "split_module", "split_module_simple"]
_OUTSIDE = ("placeholder", "get_attr", "output")


@dataclass
class Partition:
    """One part of a graph.

    Attributes:
        name: the part's name.
        submod_name: the name of the module made of it.
        nodes: the nodes, in order.
        inputs, outputs: nodes of other parts that this part uses, and its nodes that other parts use.
        partitions_dependent_on: the parts that this part depends on.
        graph: the part as a graph.
        environment: node of the whole graph -> node of this part's graph.
        targets: attributes of the part's module.
    """

    name: str
    submod_name: str
    nodes: list[Node] = field(default_factory=list)
    inputs: dict[Node, None] = field(default_factory=dict)
    outputs: dict[Node, None] = field(default_factory=dict)
    partitions_dependent_on: dict[str, None] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    environment: dict[Node, Node] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)


def split_module_simple(m: GraphModule, split_callback: Callable[[Node], int]) -> GraphModule:
    """Split a module as `split_module` does, with the module itself as root."""
    return split_module(m, m, split_callback)


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Split a graph into parts; each part becomes a submodule ``submod_<part>``.

    Args:
        m: the module.
        root_m: the module with the attributes; it may be `m`.
        split_callback: returns a node's part, a number or a name.
        qualname_map: a dict that receives, for each attribute of a part, its original path.
        keep_original_order: call the parts in the order of their first nodes.
        keep_original_node_name: accepted for compatibility; nodes always keep their names where possible.
        keep_original_input_name: name inputs of parts like the nodes they receive; otherwise ``arg_0``, ...
        partition_affix: a text before the number in the parts' names.
        tuple_return: let parts with one output return a tuple of one.
    Raises: RuntimeError if parts depend on each other in a cycle.
    """
    parts = _assigned(m.graph, split_callback, partition_affix)
    owner = {node: part for part in parts.values() for node in part.nodes}
    _note_dependencies(m.graph, parts, owner)
    order = _ordered(parts, bool(keep_original_order))
    for name in order:
        _fill(parts[name], root_m, qualname_map, keep_original_input_name, tuple_return)
    return _assembled(m, [parts[name] for name in order], tuple_return)


def _assigned(graph: Graph, split_callback: Callable[[Node], Any], affix: str | None) -> dict[str, Partition]:
    parts: dict[str, Partition] = {}
    for node in graph.nodes:
        if node.op in _OUTSIDE:
            continue
        name = str(split_callback(node))
        if name not in parts:
            middle = f"{affix}_" if affix else ""
            parts[name] = Partition(name, f"submod_{middle}{name}")
        parts[name].nodes.append(node)
    return parts


def _note_dependencies(graph: Graph, parts: dict[str, Partition], owner: dict[Node, Partition]) -> None:
    for part in parts.values():
        for node in part.nodes:
            for used in node.all_input_nodes:
                source = owner.get(used)
                if source is part:
                    continue
                part.inputs.setdefault(used)
                if source is not None:
                    source.outputs.setdefault(used)
                    part.partitions_dependent_on.setdefault(source.name)
    for node in graph.nodes:
        if node.op == "output":
            for used in node.all_input_nodes:
                if used in owner:
                    owner[used].outputs.setdefault(used)


def _ordered(parts: dict[str, Partition], original: bool) -> list[str]:
    """Sort the parts topologically."""
    order: list[str] = []
    waiting = list(parts)
    while waiting:
        ready = [name for name in waiting if set(parts[name].partitions_dependent_on) <= set(order)]
        if not ready:
            raise RuntimeError(f"split_module: cycle exists between partitions {', '.join(waiting)}")
        chosen = ready[:1] if original else ready
        order += chosen
        waiting = [name for name in waiting if name not in chosen]
    return order


def _fill(part: Partition, root: Module, names: Any, keep_input_name: bool, as_tuple: bool) -> None:
    """Build the part's graph."""
    for number, used in enumerate(part.inputs):
        own = part.graph.placeholder(used.name if keep_input_name else f"arg_{number}", used.type)
        own.meta = used.meta.copy()
        part.environment[used] = own
    for node in part.nodes:
        made = part.graph.node_copy(node, lambda n: part.environment[n])
        if node.op == "call_module":
            made.target = node.target.replace(".", "_")
            part.targets[made.target] = get_attribute(root, node.target)
            if names is not None:
                names[f"{part.submod_name}.{made.target}"] = node.target
        part.environment[node] = made
    outputs = [part.environment[node] for node in part.outputs]
    result: Any = tuple(outputs)
    part.graph.output(outputs[0] if len(outputs) == 1 and not as_tuple else result)


def _assembled(m: GraphModule, parts: list[Partition], as_tuple: bool) -> GraphModule:
    graph = Graph()
    known: dict[Node, Node] = {}
    attributes: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            known[node] = graph.node_copy(node)
        if node.op == "get_attr":
            attributes[node.target] = get_attribute(m, node.target)
    for part in parts:
        module = GraphModule(part.targets, part.graph)
        attributes[part.submod_name] = module
        call = graph.call_module(part.submod_name, tuple(known[used] for used in part.inputs))
        if len(part.outputs) > 1 or as_tuple:
            result: Any = Proxy(call)
            for place, node in enumerate(part.outputs):
                known[node] = result[place].node
        else:
            known.update(dict.fromkeys(part.outputs, call))
    for node in m.graph.nodes:
        if node.op == "output":
            output = graph.output(map_arg(node.args[0], lambda n: known[n]), node.type)
            output.meta = node.meta.copy()
    graph.set_codegen(m.graph._codegen)
    return GraphModule(attributes, graph)
