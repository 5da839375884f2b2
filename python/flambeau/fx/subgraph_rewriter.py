"""replace_pattern: replaces every occurrence of a pattern in a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flambeau.fx._attributes import copy_attribute, get_attribute, has_attribute
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from flambeau.nn import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

_Filter = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """A place where the pattern was found.

    Attributes:
        anchor: the node at which the search began.
        nodes_map: node of the pattern -> node of the graph.
    """

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """An occurrence of the pattern, and the nodes that replaced it."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node] = field(default_factory=list)


def _graph_of(program: Any) -> Graph:
    from flambeau.fx._symbolic_trace import symbolic_trace

    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace all occurrences of a pattern by another piece of program, in place.

    The pattern must return all of its values that the rest of the graph uses. An occurrence that overlaps an
    earlier one is not replaced.

    Args:
        gm: the module; it is recompiled.
        pattern: a function, a module, or a graph.
        replacement: a function, module or graph with the same inputs and outputs.

    Returns: the occurrences.

    Example:
        >>> traced = flambeau.fx.symbolic_trace(lambda x, w: flambeau.relu(x + w))
        >>> found = flambeau.fx.replace_pattern(traced, lambda a, b: a + b, lambda a, b: a * b)
        >>> [node.name for node in traced.graph.nodes]
        ['x', 'w', 'mul', 'relu', 'output']
    """
    return [
        Match(done.anchor, done.nodes_map) for done in replace_pattern_with_filters(gm, pattern, replacement)
    ]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: list[_Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """Replace the occurrences that all filters accept, as `replace_pattern` does.

    Args:
        gm: the module; it is recompiled.
        pattern: a function, a module, or a graph.
        replacement: a function, module or graph with the same inputs and outputs.
        match_filters: functions of a match, the graph and the pattern that return whether to replace it.
        ignore_literals: whether constants of the pattern match any other constants.
        replacement_callback: returns the replacement for a match, instead of `replacement`.
        node_name_match: see `SubgraphMatcher.match`.
    """
    pattern_graph = _graph_of(pattern)
    fixed = None if replacement_callback is not None else _graph_of(replacement)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    filters = match_filters or []
    done: list[ReplacedPatterns] = []
    current: dict[Node, Node] = {}  # node that was replaced -> its replacement
    for match in matcher.match(gm.graph, node_name_match):
        if not all(accepts(match, gm.graph, pattern_graph) for accepts in filters):
            continue
        new = fixed
        if new is None and replacement_callback is not None:
            new = replacement_callback(match, gm.graph, pattern_graph)
        if new is None:
            raise AssertionError("replace_pattern: expected a replacement or a replacement_callback")
        done.append(_replace_one(gm.graph, matcher, match, new, current))
    gm.recompile()
    if isinstance(replacement, Module):
        _replace_attributes(gm, replacement)
    return done


def _replace_one(
    graph: Graph, matcher: SubgraphMatcher, match: InternalMatch, new: Graph, current: dict[Node, Node]
) -> ReplacedPatterns:
    placeholders = [node for node in new.nodes if node.op == "placeholder"]
    if len(placeholders) != len(matcher.pattern_placeholder_nodes):
        raise AssertionError(
            f"replace_pattern: the pattern has {len(matcher.pattern_placeholder_nodes)} inputs, "
            f"its replacement {len(placeholders)}"
        )
    values: dict[Node, Any] = {}
    for own, pattern_node in zip(placeholders, matcher.pattern_placeholder_nodes, strict=True):
        bound = match.nodes_map.get(pattern_node)
        while isinstance(bound, Node) and bound in current:
            bound = current[bound]
        values[own] = bound
    inside = {n for p, n in match.nodes_map.items() if p.op not in ("placeholder", "output")}
    users = [user for node in match.returning_nodes for user in node.users if user not in inside]
    place = min(users) if users else graph.output_node()
    with graph.inserting_before(place):
        before = set(values)
        returned = graph.graph_copy(new, values)
    added = [values[node] for node in new.nodes if node in values and node not in before]
    results: list[Any] = [returned] if isinstance(returned, Node) or returned is None else list(returned)
    if len(results) != len(match.returning_nodes):
        raise AssertionError(
            f"replace_pattern: the pattern returns {len(match.returning_nodes)} values, "
            f"its replacement {len(results)}"
        )
    for old, result in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(result)
        current[old] = result
    for node in sorted(inside, reverse=True):
        if not node.users:
            graph.erase_node(node)
    return ReplacedPatterns(match.anchors[0], match.nodes_map, added)


def _replace_attributes(gm: GraphModule, replacement: Module) -> None:
    """Copy the attributes that the new nodes refer to, and delete unused submodules."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or has_attribute(gm, node.target):
            continue
        if not has_attribute(replacement, node.target):
            raise RuntimeError(
                f"replace_pattern: {node.op} refers to {node.target}, which neither the module nor the "
                "replacement has"
            )
        if node.op == "call_module":
            gm.add_submodule(node.target, get_attribute(replacement, node.target))
        else:
            copy_attribute(replacement, gm, node.target)
    gm.graph.lint()
