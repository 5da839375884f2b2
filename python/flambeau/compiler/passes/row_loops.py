"""Groups of operators that one loop over rows computes: reductions of rows, with what feeds and reads them.

What an operator with a kernel of its own computes follows from the specification (`decomposition:`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau.compiler.ir.dependences import Dependences, overload_of
from flambeau.compiler.ir.row_loops import Domain, Unfit, argument, sizes_of
from flambeau.compiler.passes.cleanup import merge_equal, remove_dead
from flambeau.compiler.passes.fusion import Group, boundary, is_pointwise, join, levels_of
from flambeau.fx.experimental._operator_trace import OperatorTracer, RecordingMode
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node, map_arg

LEAST_ELEMENTS = 4096
_LEAST_COLUMNS = 16
_MOST_NODES = 64


@dataclass(frozen=True)
class Fold:
    """A reduction, as the specification describes it.

    Args:
        name: of its functions.
        widens: whether integers become int64.
        is_sum: whether it is the sum of its operand.
        is_truth: whether its partial results are bool.
        operands: names of the arguments that it reads per element.
        params: names of the numbers that it reads.
        dims: the dimensions that it reduces.
    """

    name: str
    widens: bool
    is_sum: bool
    is_truth: bool
    operands: list[str]
    params: list[str]
    dims: list[int]


def fold_of(node: Node) -> Fold | None:
    """Return the reduction that a node is; None for other nodes."""
    overload = overload_of(node)
    found = flambeau._C._fold_of(overload._entry) if overload is not None and overload._entry else None
    if found is None or node.meta.get("val") is None:
        return None
    name, widens, is_sum, is_truth, operands, params, dim, _ = found
    first = argument(node, operands.split()[0])
    if not isinstance(first, Node) or first.meta.get("val") is None:
        return None
    rank, given = len(sizes_of(first)), argument(node, dim)
    dims = given if isinstance(given, list | tuple) else [given]
    if not dims or any(type(d) is not int for d in dims):
        return None
    wrapped = sorted(d + rank if d < 0 else d for d in dims)
    return Fold(name, widens, is_sum, is_truth, operands.split(), params.split(), wrapped)


def _domain_of_fold(node: Node) -> Domain | None:
    """Return the rows that a reduction runs along, or sums over."""
    fold = fold_of(node)
    if fold is None:
        return None
    sizes = sizes_of(argument(node, fold.operands[0]))
    rank = len(sizes)
    is_along = fold.dims == [rank - 1]
    is_over = summed_over_rows(node) is not None
    return Domain(sizes[:-1], sizes[-1]) if rank > 1 and (is_along or is_over) else None


def summed_over_rows(node: Node) -> Node | None:
    """Return the node whose leading dimensions a node sums; None for other nodes."""
    fold = fold_of(node)
    if fold is None or not fold.is_sum:
        return None
    given: Node = argument(node, fold.operands[0])
    first = given.meta["val"]
    is_real = first.is_floating_point() and node.meta["val"].dtype == first.dtype
    return given if is_real and first.dim() > 1 and fold.dims == list(range(first.dim() - 1)) else None


def indexing_of(node: Node) -> tuple[str, Node, Node] | None:
    """Return how a node takes or places one element of each row, as the specification says.

    Returns: "pick" or "place", the tensor, and the index; None for other nodes.
    """
    overload, value = overload_of(node), node.meta.get("val")
    found = flambeau._C._indexing_of(overload._entry) if overload is not None and overload._entry else None
    if found is None or value is None:
        return None
    adds, tensor, index_name, dim_name = found
    given, index, dim = argument(node, tensor), argument(node, index_name), argument(node, dim_name)
    if type(dim) is not int or dim % max(value.dim(), 1) != value.dim() - 1:
        return None
    is_known = all(isinstance(n, Node) and n.meta.get("val") is not None for n in (given, index))
    return ("place" if adds else "pick", given, index) if is_known else None


def is_cast(node: Node) -> bool:
    """Whether a node converts a tensor of the CPU to another dtype, in memory of its own."""
    overload = overload_of(node)
    if overload is None or not flambeau._C._is_cast(overload._entry):
        return False
    return not argument(node, "pin_memory") and str(argument(node, "device") or "cpu") in ("cpu", "meta")


def decomposition(node: Node) -> tuple[Graph, list[Node | None]] | None:
    """Return what a node's operator consists of, as the specification says.

    Returns: the graph of its parts, whose placeholders are the node's arguments in the order of
        `all_input_nodes`, and the parts that are its results; None for operators without a decomposition.
    """
    if "decomposition" not in node.meta:
        node.meta["decomposition"] = _decomposition(node)
    found: tuple[Graph, list[Node | None]] | None = node.meta["decomposition"]
    return found


def _decomposition(node: Node) -> tuple[Graph, list[Node | None]] | None:
    overload = overload_of(node)
    if overload is None or not overload._entry:
        return None
    name = f"{overload._entry}_decomposed"
    if "." in name or flambeau._C._operator_facts(name) is None:
        return None
    if any(n.meta.get("val") is None or n.meta["val"].numel() == 0 for n in node.all_input_nodes):
        return None
    tracer = OperatorTracer()
    given = dict[Node, Any]()
    for n in node.all_input_nodes:
        like = given[n] = n.meta["val"]  # itself where it can be, so that views are found
        if not like.is_meta:
            given[n] = flambeau.empty_strided(like.size(), like.stride(), dtype=like.dtype, device="meta")
        tracer.assign(given[n], tracer.graph.placeholder(n.name))
    args, kwargs = map_arg(node.args, given.__getitem__), map_arg(node.kwargs, given.__getitem__)
    target = getattr(flambeau.ops.aten, name).default
    with flambeau.no_grad(), RecordingMode(tracer):
        made = target(*args, **kwargs)
    results = [made] if isinstance(made, flambeau.Tensor) else list(made)
    parts = [None if r is None else tracer.node_of(r) for r in results]
    if any(n.op == "get_attr" for n in tracer.graph.nodes):
        return None
    tracer.graph.output(parts)
    remove_dead(tracer.graph)
    return tracer.graph, parts


def is_same_elements(node: Node) -> bool:
    """Whether a node is a view with the elements of its argument, perhaps repeated, in the same order."""
    value, sources = node.meta.get("val"), node.all_input_nodes
    if value is None or len(sources) != 1 or sources[0].meta.get("val") is None:
        return False
    source = sources[0].meta["val"]
    if value.untyped_storage() is not source.untyped_storage() or value.dtype != source.dtype:
        return False
    return value.storage_offset() == source.storage_offset() and _steps(value) == _steps(source)


def _steps(tensor: Any) -> list[tuple[int, int]]:
    pairs = zip(tensor.size(), tensor.stride(), strict=True)
    return [(n, s) for n, s in pairs if n != 1 and s != 0]


def domain_of(node: Node) -> Domain | None:
    """Return the rows of a reduction, or of an operator that contains one."""
    if "rows of folds" not in node.meta:
        node.meta["rows of folds"] = _domain_of(node)
    known: Domain | None = node.meta["rows of folds"]
    return known


def _domain_of(node: Node) -> Domain | None:
    found = _domain_of_fold(node)
    if found is None and not is_pointwise(node):
        parts = decomposition(node)
        domains = {_domain_of_fold(n) for n in parts[0].nodes} - {None} if parts else set()
        found = next(iter(domains)) if len(domains) == 1 else None
    return found if found is not None and found.columns >= _LEAST_COLUMNS else None


def _members(graph: Graph, domain: Domain, own: dict[Node, Domain], refused: set[Node]) -> set[Node]:
    """Return the nodes that a loop over these rows may compute."""
    found = set[Node]()
    for node in graph.nodes:
        if node in refused or node.op != "call_function":
            continue
        if own.get(node) == domain or (node.target is operator.getitem and node.all_input_nodes[0] in found):
            found.add(node)
        elif node.meta.get("val") is not None and domain.form(sizes_of(node)):
            if (
                is_pointwise(node)
                or is_cast(node)
                or indexing_of(node)
                or (is_same_elements(node) and node.all_input_nodes[0] in found)
            ):
                found.add(node)
    for node in reversed(graph.nodes):  # views and lists of results stay with all of their users
        is_list = node in found and node.meta.get("val") is None
        if node in found and (is_list or is_same_elements(node)) and not found.issuperset(node.users):
            found.discard(node)
    return {n for n in found if n.target is not operator.getitem or n.all_input_nodes[0] in found}


def row_groups(graph: Graph, dependences: Dependences, refused: set[Node]) -> Iterator[tuple[Domain, Group]]:
    """Yield the groups of a graph that a loop over rows could compute.

    Args:
        graph: of operators.
        dependences: its edges.
        refused: nodes that were found not to fit.
    """
    own = {node: domain for node in graph.nodes if (domain := domain_of(node)) is not None}
    for domain in dict.fromkeys(own.values()):
        members = _members(graph, domain, own, refused)

        def joins(node: Node, earlier: Node, members: set[Node] = members) -> bool:
            is_edge = node in members and earlier in members and earlier in node.all_input_nodes
            return is_edge and summed_over_rows(earlier) is None

        levels = levels_of(graph, dependences, joins, members.__contains__)
        for nodes in _connected(graph, members, levels, joins):
            if _is_worth_it(nodes, own, domain):
                yield domain, boundary(nodes)


def _connected(
    graph: Graph, members: set[Node], levels: dict[Node, int], joins: Callable[[Node, Node], bool]
) -> list[list[Node]]:
    found = dict[Node, list[Node]]()
    readers = dict[Any, Node]()
    for node in graph.nodes:
        if node not in members:
            continue
        found[node] = [node]
        for earlier in node.all_input_nodes:
            is_item = node.target is operator.getitem
            if joins(node, earlier) and (is_item or levels[node] == levels[earlier]):
                join(found, earlier, node)
            if earlier.meta.get("val") is not None and earlier.meta["val"].numel() >= LEAST_ELEMENTS:
                join(found, readers.setdefault((earlier, levels[node]), node), node)
    place = {node: i for i, node in enumerate(graph.nodes)}
    unique = {id(nodes): sorted(nodes, key=place.__getitem__) for nodes in found.values()}
    return list(unique.values())


def _is_worth_it(nodes: list[Node], own: dict[Node, Domain], domain: Domain) -> bool:
    elements = domain.columns
    for size in domain.sizes:
        elements *= size
    work = [n for n in nodes if n.target is not operator.getitem and not is_same_elements(n)]
    has_fold = any(n in own for n in work)
    return has_fold and 2 <= len(work) and len(nodes) <= _MOST_NODES and elements >= LEAST_ELEMENTS


def flattened(group: Group) -> Graph:
    """Return the graph of a group in which operators are replaced by their decompositions."""
    graph, made = Graph(), dict[Node, Any]()
    for node in group.inputs:
        made[node] = graph.placeholder(node.name)
        made[node].meta["val"] = node.meta["val"]
    for node in group.nodes:
        if node.target is operator.getitem:
            source = made[node.all_input_nodes[0]]
            if not isinstance(source, list):
                raise Unfit(node)
            made[node] = source[int(str(node.args[1]))]
            continue
        parts = (
            None if fold_of(node) is not None or is_pointwise(node) or is_cast(node) else decomposition(node)
        )
        if parts is None:
            made[node] = _copy(graph, node, made)
            continue
        inner = dict[Node, Node]()
        slots = [n for n in parts[0].nodes if n.op == "placeholder"]
        for slot, source in zip(slots, node.all_input_nodes, strict=True):
            inner[slot] = made[source]
        for part in parts[0].nodes:
            if part.op == "call_function":
                inner[part] = _copy(graph, part, inner)
        results = [None if r is None else inner[r] for r in parts[1]]
        made[node] = results if node.meta.get("val") is None else results[0]
    graph.output([made[node] for node in group.outputs])
    remove_dead(graph)
    merge_equal(graph)
    return graph


def _copy(graph: Graph, node: Node, made: dict[Node, Any]) -> Node:
    copy = graph.node_copy(node, made.__getitem__)
    copy.meta = {"val": node.meta.get("val")}
    return copy
