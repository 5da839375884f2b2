"""split_by_tags: splits a graph by the tags of its nodes."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from flambeau.fx._attributes import get_attribute as getattr_recursive
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.fx.passes.split_module import split_module

__all__ = ["Component", "getattr_recursive", "setattr_recursive", "split_by_tags"]


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Set an attribute at a dotted path."""
    path, _, name = attr.rpartition(".")
    setattr(getattr_recursive(obj, path) if path else obj, name, value)


@dataclass
class Component:
    """A part of a graph that becomes a submodule."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> Any:
    """Move the nodes of each tag to a submodule of that name.

    Args:
        gm: the module; nodes have an attribute `tag`.
        tags: the tags, in the order of the parts.
        return_fqn_mapping: also return a dict from new paths of attributes to old ones.
        return_tuple: let parts with one output return a tuple.
        GraphModuleCls: the class of the result.
    """
    for node in gm.graph.nodes:
        tag = getattr(node, "tag", None)
        if node.op.startswith("call_") and tag not in tags:
            raise AssertionError(f"split_by_tags: expected a tag of {tags} on {node}, got {tag!r}")
    paths: dict[str, str] = {}
    tag_of: dict[str, Any] = {node.name: getattr(node, "tag", "") for node in gm.graph.nodes}
    made = split_module(gm, gm, lambda node: tag_of[node.name], paths, tuple_return=return_tuple)
    renamed: dict[str, Any] = {}
    for node in made.graph.nodes:
        if node.op == "call_module":
            name = node.target.removeprefix("submod_")
            renamed[name] = made.get_submodule(node.target)
            node.target = name
        elif node.op == "get_attr":
            renamed[node.target] = getattr_recursive(made, node.target)
    result = GraphModuleCls(renamed, copy.deepcopy(made.graph))
    if not return_fqn_mapping:
        return result
    return result, {new.removeprefix("submod_"): old for new, old in paths.items()}
