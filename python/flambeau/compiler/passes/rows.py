"""Groups of operators that run slice by slice along their leading dimensions, each slice within the cache."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flambeau.compiler.ir.dependences import Dependences
from flambeau.compiler.ir.rows import Rows, rows_of
from flambeau.compiler.passes.fusion import Group, boundary, is_fusable, join, levels_of
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

_MOST_NODES = 64
_FALLBACK_CACHE = 1 << 20


def _cache(level: int, fallback: int) -> int:
    """The bytes of a cache, as the system says."""
    try:
        found = os.sysconf(f"SC_LEVEL{level}_CACHE_SIZE")
    except (ValueError, OSError):
        return fallback
    return found if found > 0 else fallback


_CACHE_BYTES = max(_cache(2, 1 << 20), 1 << 18)  # of one core
_SLICE_BYTES = _CACHE_BYTES // 2
# Tensors that stay in the cache of all cores are read quickly enough that the calls for slices cost more
# than they save. Some systems count the caches of all sockets here.
_LARGE_BYTES = min(max(_cache(3, 1 << 25), 8 * _CACHE_BYTES), 1 << 26)


@dataclass
class RowGroup(Group):
    """Operators that all can be divided along the same leading dimensions.

    Args:
        sizes: of these dimensions.
        length: of a slice along the last of them; along the others a slice has size 1.
    """

    sizes: tuple[int, ...]
    length: int

    def slices(self) -> list[tuple[tuple[int, int], ...]]:
        """Return for each slice its start and length along each dimension."""
        outer: list[tuple[tuple[int, int], ...]] = [()]
        for size in self.sizes[:-1]:
            outer = [(*start, (i, 1)) for start in outer for i in range(size)]
        last = self.sizes[-1]
        inner = [(i, min(self.length, last - i)) for i in range(0, last, self.length)]
        return [(*start, part) for start in outer for part in inner]


@dataclass
class Divisible(Group):
    """Operators that can be divided along the same leading dimensions.

    Args:
        sizes: of these dimensions.
    """

    sizes: tuple[int, ...]


def divisible_groups(graph: Graph, dependences: Dependences) -> list[Divisible]:
    """Return the groups of a graph that can run slice by slice.

    Each holds an operator that is not pointwise, for pointwise ones alone have shorter loops (`groups_of`).
    """
    known = {node: rows for node in graph.nodes if (rows := rows_of(node)) is not None}
    _drop_views(graph, known)
    if not any(_is_work(node, known) and not is_fusable(node) for node in known):
        return []

    def joins(node: Node, earlier: Node) -> bool:
        return (
            node in known
            and earlier in known
            and earlier in known[node].places
            and known[node].sizes[0] == known[earlier].sizes[0]
            and known[node].follows(earlier, 1)
        )

    levels = levels_of(graph, dependences, joins, known.__contains__)
    found: dict[Node, list[Node]] = {}
    readers: dict[Any, Node] = {}
    for node in known:
        found[node] = [node]
        for argument, places in known[node].places.items():
            is_item = node.target is operator.getitem
            if argument in found and joins(node, argument) and (is_item or levels[argument] == levels[node]):
                join(found, argument, node)
            sibling = readers.setdefault((argument, places[0], levels[node], known[node].sizes[0]), node)
            if places[0] is not None and sibling is not node:
                join(found, sibling, node)
    place = {node: i for i, node in enumerate(graph.nodes)}
    unique = {id(nodes): sorted(nodes, key=place.__getitem__) for nodes in found.values()}
    groups = (_group(nodes, known) for nodes in unique.values())
    return [group for group in groups if group is not None]


def _is_work(node: Node, known: dict[Node, Rows]) -> bool:
    return node.target is not operator.getitem and not known[node].is_view


def _drop_views(graph: Graph, known: dict[Node, Rows]) -> None:
    """Keep only the views that slices of their users read: a slice's view cannot leave its group."""
    for node in reversed(list(graph.nodes)):
        if node in known and known[node].is_view:
            inside = all(u in known and known[u].places[node][0] == 0 for u in node.users)
            if not inside or node.target is operator.getitem:
                del known[node]


def _group(nodes: list[Node], known: dict[Node, Rows]) -> Divisible | None:
    work = [node for node in nodes if _is_work(node, known)]
    if len(work) < 2 or len(nodes) > _MOST_NODES or all(map(is_fusable, work)):
        return None
    group = boundary(nodes)
    if any(not is_whole_result(node, known) for node in group.outputs):
        return None
    sizes = _sizes(nodes, known)
    return Divisible(group.nodes, group.inputs, group.outputs, sizes) if sizes else None


def is_whole_result(node: Node, known: dict[Node, Rows]) -> bool:
    """Whether a node's result is one dense tensor with memory of its own."""
    value = node.meta.get("val")
    if value is None or known[node].is_view:
        return False
    reach = 1 + sum((n - 1) * s for n, s in zip(value.size(), value.stride(), strict=True))
    return bool(value.numel() == reach)


def _sizes(nodes: list[Node], known: dict[Node, Rows]) -> tuple[int, ...]:
    """The leading sizes along which all nodes of a group can be divided alike."""
    inside = set(nodes)
    sizes, depth = known[nodes[0]].sizes, 0
    while all(
        len(known[n].sizes) > depth
        and known[n].sizes[depth] == sizes[depth]
        and all(known[n].follows(a, depth + 1) for a in known[n].places if a in inside)
        for n in nodes
    ):
        depth += 1
    return sizes[:depth]


def _bytes(node: Node) -> int:
    """What a node's result takes; nothing for several results, each of which is a node of its own."""
    value = node.meta.get("val")
    return 0 if value is None else value.numel() * value.element_size()


def _peak(group: Group) -> int:
    """The most bytes that a group's inputs and results take at once."""
    inside = set(group.nodes)
    last = {n: i for i, node in enumerate(group.nodes) for n in (node, *node.all_input_nodes)}
    alive = peak = 0
    for i, node in enumerate(group.nodes):
        alive += _bytes(node)
        first = [n for n in node.all_input_nodes if n not in inside]
        peak = max(peak, alive + sum(map(_bytes, first)))
        ended = [n for n in (node, *node.all_input_nodes) if n in inside and last[n] == i]
        alive -= sum(map(_bytes, ended))
    return peak


def is_large(nodes: Iterable[Node]) -> bool:
    """Whether the results of nodes take more memory than the cache of all cores has."""
    return sum(map(_bytes, nodes)) > _LARGE_BYTES


def with_slices(group: Divisible) -> RowGroup | None:
    """Return a group with slices whose values take half of the cache; None if slices are not worth it."""
    peak, sizes = _peak(group), group.sizes
    if 0 in sizes or not is_large({*group.nodes, *group.inputs}):
        return None
    for depth in range(1, len(sizes) + 1):
        count = math.prod(sizes[:depth])
        each = peak / count
        length = min(int(_SLICE_BYTES / each), sizes[depth - 1])
        if each > _CACHE_BYTES and depth == len(sizes):  # a single row does not fit
            return None
        if length >= 1 or depth == len(sizes):
            parts = math.ceil(sizes[depth - 1] / max(length, 1))
            even = math.ceil(sizes[depth - 1] / parts)  # all but the last of one length
            if parts * count // sizes[depth - 1] < 2:
                return None
            return RowGroup(group.nodes, group.inputs, group.outputs, sizes[:depth], even)
    return None
