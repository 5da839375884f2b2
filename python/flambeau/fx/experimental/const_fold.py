"""Constant folding: nodes that depend on no input are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import Tensor
from flambeau.fx._symbolic_trace import symbolic_trace
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.nn import Module, Parameter

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A GraphModule whose constant part is computed at the first call, or by `run_folding`.

    Args:
        root: the module with the attributes.
        graph: the part that depends on inputs.
        const_subgraph: the part that does not depend on inputs.
        fx_const_folded_attrs_name: the attribute that receives the values of the constant part.
        device_for_folded_attrs: accepted for compatibility.
    """

    def __init__(
        self,
        root: Module,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.has_folding_been_run = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Compute the constant part."""
        self.has_folding_been_run = True
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        values = self.const_subgraph_module()
        for place, value in enumerate(values):
            name = f"{self.fx_const_folded_attrs_name}_{place}"
            if isinstance(value, Tensor):
                value = Parameter(value.detach(), requires_grad=False)
            setattr(self, name, value)


def get_unique_attr_name_in_module(mod_traced: Module, name: str) -> str:
    """Return an unused attribute name that begins with `name`."""
    number, candidate = 0, name
    while hasattr(mod_traced, candidate):
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def _constants(graph: Graph, module: Module, skip: Callable[[Node], bool] | None) -> set[Node]:
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op == "get_attr":
            found.add(node)
            continue
        if node.op in ("placeholder", "output") or not node.all_input_nodes:
            continue
        if all(used in found for used in node.all_input_nodes) and not (skip is not None and skip(node)):
            if not (node.op == "call_module" and module.get_submodule(str(node.target)).training):
                found.add(node) if not node.is_impure() else None
    return found


def split_const_subgraphs(
    module: Module,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """Separate the nodes that depend on attributes only from those that depend on inputs.

    Args:
        module: the module; it is traced if it is not a GraphModule.
        skip_folding_node_fn: returns whether a node must not be folded.
        device_for_folded_attrs: accepted for compatibility.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = _constants(traced.graph, traced, skip_folding_node_fn)
    border = [
        n for n in traced.graph.nodes
        if n in constant and n.op != "get_attr" and any(user not in constant for user in n.users)
    ]  # fmt: skip
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    if not border:
        return FoldedGraphModule(traced, traced.graph)
    folded, rest = Graph(), Graph()
    known: dict[Node, Node] = {}
    for node in traced.graph.nodes:
        if node in constant:
            known[node] = folded.node_copy(node, lambda n: known[n])
    folded.output(tuple(known[node] for node in border))
    kept: dict[Node, Any] = {}
    for node in traced.graph.nodes:
        if node in border:
            kept[node] = rest.create_node("get_attr", f"{name}_{border.index(node)}")
        elif node not in constant or node.op == "get_attr":
            kept[node] = rest.node_copy(node, lambda n: kept[n])
    for node in reversed(rest.nodes):
        if node.op == "get_attr" and not node.users:
            rest.erase_node(node)
    for place in range(len(border)):
        setattr(traced, f"{name}_{place}", None)
    rest.set_codegen(traced.graph._codegen)
    return FoldedGraphModule(traced, rest, folded, name, device_for_folded_attrs)
