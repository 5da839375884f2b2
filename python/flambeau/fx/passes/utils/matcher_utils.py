"""SubgraphMatcher: finds a pattern inside a graph."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from flambeau import Tensor
from flambeau.fx._attributes import get_attribute, has_attribute
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node
from flambeau.utils import _pytree as pytree

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One match of a pattern.

    Attributes:
        anchors: the pattern's nodes at which the backward search began.
        nodes_map: node of the pattern -> node of the graph.
        placeholder_nodes: the nodes that match the pattern's placeholders, in order.
        returning_nodes: the nodes that match the nodes that the pattern returns.
        name_node_map: names of the pattern's nodes -> nodes of the graph.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict)
    placeholder_nodes: list[Node] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            list(self.anchors),
            dict(self.nodes_map),
            list(self.placeholder_nodes),
            list(self.returning_nodes),
            dict(self.name_node_map),
        )


class SubgraphMatcher:
    """Finds a pattern in graphs.

    Args:
        pattern: the pattern, a graph. Its placeholders match any node.
        match_output: the pattern's output matches only the graph's output.
        match_placeholder: the pattern's placeholders match only placeholders.
        remove_overlapping_matches: return only the first of several matches that share nodes.
        ignore_literals: whether numbers and other constants match any other constants.
    Raises: ValueError for a pattern without nodes, or with unused nodes.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher: expected a pattern with nodes, got an empty one")
        for node in pattern.nodes:
            if node.op not in ("output", "placeholder") and not node.users:
                raise ValueError(
                    "SubgraphMatcher: expected a pattern without dead code, got dead code: nothing uses "
                    f"{node}"
                )
        output = pattern.output_node()
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        only_returned = [n for n in output.all_input_nodes if len(n.users) == 1]
        self.pattern_anchors = [output] if match_output else only_returned or output.all_input_nodes

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return all matches of the pattern, in the order of the graph.

        Args:
            graph: the graph.
            node_name_match: a text; nodes of the pattern and of the graph that both have it in their names
                match without further comparison.
        """
        self._name = node_name_match
        found = [InternalMatch(anchors=self.pattern_anchors)]
        for anchor in self.pattern_anchors:
            candidates = [node for node in graph.nodes if self._nodes_are_equal(anchor, node)]
            extended = []
            for partial in found:
                for node in candidates:
                    attempt = copy.copy(partial)
                    if self._match_nodes(anchor, node, attempt):
                        extended.append(attempt)
            found = extended
        complete = [self._completed(match) for match in found if self._is_contained(match.nodes_map)]
        return self._without_overlaps(complete) if self.remove_overlapping_matches else complete

    def _completed(self, match: InternalMatch) -> InternalMatch:
        known = match.nodes_map
        match.placeholder_nodes = [known[n] for n in self.pattern_placeholder_nodes if n in known]
        match.returning_nodes = [known[n] for n in self.pattern_returning_nodes if n in known]
        match.name_node_map = {n.name: known[n] for n in self.pattern.nodes if n in known}
        return match

    def _is_contained(self, nodes_map: dict[Node, Node]) -> bool:
        """Whether no node outside the match uses a value that the pattern does not return."""
        inside = set(nodes_map.values())
        free = {"placeholder", "output", "get_attr"}
        for pattern_node, node in nodes_map.items():
            if pattern_node.op in free or pattern_node in self.pattern_returning_nodes:
                continue
            if any(user not in inside for user in node.users):
                return False
        return True

    def _without_overlaps(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        taken: set[Node] = set()
        kept = []
        for match in matches:
            own = {n for p, n in match.nodes_map.items() if p.op not in ("placeholder", "output")}
            if not own & taken:
                kept.append(match)
                taken |= own
        return kept

    # --- nodes --------------------------------------------------------------------------------------

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        if pn.op == "placeholder" and not self.match_placeholder:
            return True
        name = node_name_match or getattr(self, "_name", "")
        if name and name in pn.name and name in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        if pn.op == "get_attr":
            return self._match_attributes(pn, gn)
        return bool(pn.target == gn.target)

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        first, second = pn.graph.owning_module, gn.graph.owning_module
        if first is None or second is None or not has_attribute(first, str(pn.target)):
            return bool(pn.target == gn.target)
        a, b = get_attribute(first, str(pn.target)), get_attribute(second, str(gn.target))
        if isinstance(a, Tensor):
            return isinstance(b, Tensor)
        return type(a) is type(b)

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        if isinstance(pn, Node) or isinstance(gn, Node):
            if isinstance(pn, Node) and pn.op == "placeholder" and self.ignore_literals:
                match.nodes_map[pn] = gn
                return True
            return False
        return self.ignore_literals or (type(pn) is type(gn) and bool(pn == gn))

    def _match_nodes(self, pn: Node, gn: Node, match: InternalMatch) -> bool:
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if gn in match.nodes_map.values() or not self._nodes_are_equal(pn, gn):
            return False
        before = dict(match.nodes_map)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder" or self._match_arguments(pn, gn, match):
            return True
        match.nodes_map = before
        return False

    def _match_arguments(self, pn: Node, gn: Node, match: InternalMatch) -> bool:
        expected, found = _aligned(pn, gn)
        first, first_spec = pytree.tree_flatten(expected)
        second, second_spec = pytree.tree_flatten(found)
        if first_spec != second_spec:
            return False
        for a, b in zip(first, second, strict=True):
            if isinstance(a, Node) and isinstance(b, Node):
                matched = self._match_nodes(a, b, match)
            else:
                matched = self._match_literals(a, b, match)
            if not matched:
                return False
        return True


def _plain(tree: Any) -> Any:
    """Return arguments as plain containers with comparable structures; parts of slices are leaves."""
    if isinstance(tree, list):
        return [_plain(item) for item in tree]
    if isinstance(tree, tuple):
        return tuple(_plain(item) for item in tree)
    if isinstance(tree, dict):
        return {key: _plain(tree[key]) for key in sorted(tree, key=str)}
    if isinstance(tree, slice):
        return ("slice", _plain(tree.start), _plain(tree.stop), _plain(tree.step))
    return tree


def _aligned(pn: Node, gn: Node) -> tuple[Any, Any]:
    """Return the arguments of two nodes, by name if one passes by name what the other passes by position."""
    if list(pn.kwargs) == list(gn.kwargs) and len(pn.args) == len(gn.args):
        return _plain((pn.args, dict(pn.kwargs))), _plain((gn.args, dict(gn.kwargs)))
    if pn.op == "call_function":
        from flambeau.fx.operator_schemas import bound_arguments

        both = [bound_arguments(node.target, node.args, dict(node.kwargs)) for node in (pn, gn)]
        if both[0] is not None and both[1] is not None:
            return _plain(both[0]), _plain(both[1])
    return _plain((pn.args, dict(pn.kwargs))), _plain((gn.args, dict(gn.kwargs)))
