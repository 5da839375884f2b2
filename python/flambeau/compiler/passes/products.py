"""Products whose transpose is what the graph needs."""

from __future__ import annotations

import flambeau
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node


def transpose_products(graph: Graph) -> None:
    """Replace ``(a @ b).t()`` by ``b.t() @ a.t()``, whose result is row-major.

    Gradients of weights are such products. A row-major one becomes the weight's ``.grad`` as it is; a
    transposed view would be copied.
    """
    aten = flambeau.ops.aten
    for node in list(graph.nodes):
        product = node.args[0] if node.target is aten.t.default else None
        if not isinstance(product, Node) or product.target is not aten.mm.default or len(product.users) != 1:
            continue
        with graph.inserting_before(node):
            factors = [_transposed(graph, factor) for factor in reversed(product.all_input_nodes)]
            if len(factors) != 2:  # a matrix by itself
                continue
            made = graph.call_function(aten.mm.default, tuple(factors))
        value = node.meta["val"]
        made.meta["val"] = flambeau.empty(value.size(), dtype=value.dtype, device="meta")
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        graph.erase_node(product)


def _transposed(graph: Graph, factor: Node) -> Node:
    """The transpose of a matrix: what it is the transpose of, or a view."""
    aten = flambeau.ops.aten
    if factor.target is aten.t.default:
        given = factor.args[0]
        assert isinstance(given, Node)
        return given
    made = graph.call_function(aten.t.default, (factor,))
    made.meta["val"] = factor.meta["val"].t()
    return made
