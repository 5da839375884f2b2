"""CSEPass: common subexpression elimination."""

from __future__ import annotations

from typing import Any

from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, _random_functions
from flambeau.fx.passes.infra.pass_base import PassBase, PassResult
from flambeau.utils import _pytree as pytree


def get_CSE_banned_ops() -> set[Any]:
    """Return the names of functions whose calls are never merged: those that draw random numbers."""
    return {*_random_functions, "empty", "empty_like", "new_empty"}


class CSEPass(PassBase):
    """Merges calls of the same pure function with the same arguments.

    Args:
        banned_ops: functions, or names of functions, whose calls are never merged.
    """

    def __init__(self, banned_ops: set[Any] | None = None) -> None:
        self.banned_ops = get_CSE_banned_ops() if banned_ops is None else banned_ops
        super().__init__()

    def call(self, graph_module: GraphModule) -> PassResult:
        known: dict[Any, Node] = {}
        modified = False
        written = any(_writes(node) for node in graph_module.graph.nodes)
        for node in list(graph_module.graph.nodes):
            if node.op not in ("call_function", "get_attr") or written or self._is_banned(node):
                continue
            key = _key(node)
            if key is None:
                continue
            if key in known:
                node.replace_all_uses_with(known[key])
                graph_module.graph.erase_node(node)
                modified = True
            else:
                known[key] = node
        graph_module.recompile()
        return PassResult(graph_module, modified)

    def _is_banned(self, node: Node) -> bool:
        name = getattr(node.target, "__name__", node.target)
        return node.target in self.banned_ops or name in self.banned_ops or node.is_impure()


def _writes(node: Node) -> bool:
    """Whether the node writes to a tensor, after which equal calls may return different values."""
    return node.op in ("call_function", "call_method") and node._writes_its_input(
        str(getattr(node.target, "__name__", node.target))
    )


def _key(node: Node) -> Any:
    leaves, spec = pytree.tree_flatten((node.args, dict(node.kwargs)))
    try:
        key = (node.op, node.target, tuple((type(leaf), leaf) for leaf in leaves), spec)
        hash(key)
    except TypeError:
        return None
    return key
