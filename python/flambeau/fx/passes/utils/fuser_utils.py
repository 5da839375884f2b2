"""Moves parts of a graph to submodules, in place."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.fx.passes.tools_common import NodeList, legalize_graph


def topo_sort(nodes: Iterable[Node]) -> NodeList:
    """Return the nodes in topological order."""
    waiting, order = list(nodes), []
    inside, done = set(waiting), set()
    while waiting:
        ready = [n for n in waiting if all(u in done or u not in inside for u in n.all_input_nodes)]
        if not ready:
            raise AssertionError("topo_sort: expected nodes without cycles, got a cycle")
        order += ready
        done |= set(ready)
        waiting = [n for n in waiting if n not in done]
    return order


def validate_partition(partition: NodeList) -> bool:
    """Whether the nodes can become one call: no path leaves the set and returns to it."""
    inside = set(partition)
    waiting = [user for node in partition for user in node.users if user not in inside]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            waiting += node.users
    return True


def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: NodeList,
    module_name: str,
    partition_lookup_table: dict[Node, int | None] | None = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """Copy nodes into a new module.

    Args:
        gm: the module that the nodes belong to.
        nodes: the nodes, in order.
        module_name: the name of the new module's class.
        partition_lookup_table: accepted for compatibility.
        always_return_tuple: return a tuple even for one value.
    Returns: the new module, the outside nodes that it uses, and its nodes that outside nodes use.
    Raises: AssertionError if a path between two of the nodes leads through other nodes.
    """
    if not validate_partition(nodes):
        raise AssertionError("fuse_as_graphmodule: invalid partition, found dependency cycles")
    graph, inside = Graph(), set(nodes)
    known: dict[Node, Node] = {}
    for node in nodes:
        for used in node.all_input_nodes:
            if used not in inside and used not in known:
                known[used] = graph.placeholder(used.name, used.type)
                known[used].meta = dict(used.meta)
    inputs = tuple(known)
    for node in nodes:
        known[node] = graph.node_copy(node, lambda n: known[n])
    outputs = tuple(node for node in nodes if any(user not in inside for user in node.users))
    values = tuple(known[node] for node in outputs)
    graph.output(values[0] if len(values) == 1 and not always_return_tuple else values)
    graph.lint()
    return GraphModule(gm, graph, module_name), inputs, outputs


def insert_subgm(
    gm: GraphModule, sub_gm: GraphModule, orig_inputs: tuple[Node, ...], orig_outputs: tuple[Node, ...]
) -> GraphModule:
    """Insert a call of a module that `fuse_as_graphmodule` made; the nodes that it replaces stay."""
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    returns_tuple = isinstance(sub_gm.graph.output_node().args[0], tuple)
    place = max(orig_outputs, default=gm.graph.output_node().prev)
    with gm.graph.inserting_after(place):
        call = gm.graph.call_module(name, orig_inputs)
    if not returns_tuple:
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    import operator

    last = call
    for number, output in enumerate(orig_outputs):
        with gm.graph.inserting_after(last):
            last = gm.graph.call_function(operator.getitem, (call, number))
        output.replace_all_uses_with(last, propagate_meta=True)
    return gm


def erase_nodes(gm: GraphModule, nodes: NodeList) -> None:
    """Erase nodes, users first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule,
    partitions: list[dict[Node, int | None]],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Move each set of nodes to a submodule, in place."""
    for number, partition in enumerate(partitions):
        nodes = topo_sort(sorted(partition))
        made, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{number}", partition, always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, made, inputs, outputs)
        erase_nodes(gm, nodes)
    legalize_graph(gm)
    return gm
