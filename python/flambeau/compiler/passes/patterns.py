"""Calls that other calls compute with fewer passes over memory: a table of patterns and their replacements.

A pattern is a tuple: an overload, then its arguments. A str among them is a name that is bound to what a call
has there; every other value must be equal; a tuple is the pattern of a call that only this one reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau.compiler.ir.dependences import written
from flambeau.compiler.ir.open_numbers import is_open, mapped
from flambeau.compiler.passes.fusion import boundary, is_fusable, pays
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

aten: Any = flambeau.ops.aten
Binding = dict[str, Any]


class Builder:
    """Adds calls before a node, and runs them on tensors without memory."""

    def __init__(self, graph: Graph, at: Node) -> None:
        self._graph, self._at = graph, at

    def call(self, overload: Any, *args: Any) -> Node:
        """Add a call."""
        with self._graph.inserting_before(self._at):
            node = self._graph.call_function(overload, args)
        given = mapped(args, lambda leaf: _like(leaf) if isinstance(leaf, Node) else leaf)
        with flambeau.no_grad():
            node.meta["val"] = overload(*given)
        return node


def _like(node: Node) -> Any:
    value = node.meta["val"]
    if value.is_meta:
        return value
    return flambeau.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")


@dataclass(frozen=True)
class Pattern:
    """A row of the table.

    Args:
        name: for `_dynamo.utils.counters`.
        find: the pattern.
        make: adds the calls that replace it; returns the one with the result.
        holds: whether the replacement computes the same, and is quicker, for what the pattern bound.
        in_training: whether programs with gradients may use it in their forward graph.
    """

    name: str
    find: tuple[Any, ...]
    make: Callable[[Builder, Binding], Node]
    holds: Callable[[Node, Binding], bool]
    in_training: bool


def _is_bias_of_a_group(node: Node, bound: Binding) -> bool:
    """Whether loops over the result read it, so that they can add the bias as well.

    The product of other types adds it while it writes the result.
    """
    value, bias = node.meta["val"], bound["bias"].meta["val"]
    return (
        value.dtype == flambeau.float64
        and pays(boundary([node]))
        and bias.dim() == 1
        and bias.size(0) == value.size(-1) == bound["b"].meta["val"].size(1)
        and bool(node.users)
        and all(is_fusable(user) and user.meta["val"].size() == value.size() for user in node.users)
    )


def _add_later(builder: Builder, bound: Binding) -> Node:
    product = builder.call(aten.mm.default, bound["a"], bound["b"])
    if "sizes" in bound:
        product = builder.call(aten.view.default, product, bound["sizes"])
    return builder.call(aten.add.Tensor, product, bound["bias"])


def _is_of_channels(node: Node, bound: Binding) -> bool:
    """Whether a scale and a shift have one number for each channel of a convolution's result.

    Where a loop reads the result, it scales and shifts at no cost, and folding is slower.
    """
    value = node.meta["val"]
    sizes = (1, value.size(1), *[1] * (value.dim() - 2))
    parts = [bound[name].meta["val"] for name in ("scale", "shift", "weight")]
    return (
        value.dtype in (flambeau.float32, flambeau.float64)
        and all(part.dtype == value.dtype for part in parts)
        and parts[0].size() == sizes == parts[1].size()
        and value.numel() > parts[2].numel()
        and not any(map(is_fusable, node.users))
    )


def _fold(builder: Builder, bound: Binding) -> Node:
    weight, scale, shift, bias = (bound[name] for name in ("weight", "scale", "shift", "bias"))
    factors = builder.call(aten.reshape.default, scale, [-1, *[1] * (weight.meta["val"].dim() - 1)])
    weight = builder.call(aten.mul.Tensor, weight, factors)
    added = builder.call(aten.reshape.default, shift, [-1])
    if isinstance(bias, Node):
        scale = builder.call(aten.reshape.default, scale, [-1])
        added = builder.call(aten.add.Tensor, builder.call(aten.mul.Tensor, bias, scale), added)
    rest = [bound[name] for name in ("stride", "padding", "dilation")]
    last = [False, bound["extra"], bound["groups"]]
    return builder.call(aten.convolution.default, bound["x"], weight, added, *rest, *last)


_CONVOLUTION = (
    *(aten.convolution.default, "x", "weight", "bias", "stride", "padding", "dilation", False),
    *("extra", "groups"),
)
PATTERNS = (
    Pattern(
        "biases added in loops",
        (aten.view.default, (aten._addmm.default, "bias", "a", "b"), "sizes"),
        _add_later,
        _is_bias_of_a_group,
        in_training=True,
    ),
    Pattern(
        "biases added in loops",
        (aten._addmm.default, "bias", "a", "b"),
        _add_later,
        _is_bias_of_a_group,
        in_training=True,
    ),
    Pattern(
        "scales folded into convolutions",
        (aten._affine.default, _CONVOLUTION, "scale", "shift"),
        _fold,
        _is_of_channels,
        in_training=False,
    ),
)


def replace_patterns(graph: Graph, is_training: bool) -> dict[str, int]:
    """Replace the calls of the table's patterns in a graph that writes to no tensor.

    Args:
        graph: of operators; its output node is there.
        is_training: whether a backward graph reads its results.
    Returns: how often each pattern was replaced, by name.
    """
    found = dict[str, int]()
    if any(written(node) for node in graph.nodes):
        return found
    for node in list(graph.nodes):
        for pattern in PATTERNS:
            if is_training and not pattern.in_training:
                continue
            bound, inner = dict[str, Any](), list[Node]()
            if _matches(pattern.find, node, bound, inner) and pattern.holds(node, bound):
                made = pattern.make(Builder(graph, node), bound)
                node.replace_all_uses_with(made)
                for old in (node, *inner):
                    graph.erase_node(old)
                found[pattern.name] = found.get(pattern.name, 0) + 1
                break
    return found


def _matches(find: tuple[Any, ...], node: Any, bound: Binding, inner: list[Node]) -> bool:
    """Whether a node's call has the form of a pattern; notes what names stand for, and calls below it."""
    if not isinstance(node, Node) or node.op != "call_function" or node.target is not find[0]:
        return False
    if node.kwargs or len(node.args) != len(find) - 1 or node.meta.get("val") is None:
        return False
    for wanted, given in zip(find[1:], node.args, strict=True):
        if isinstance(wanted, str):
            bound[wanted] = given
        elif isinstance(wanted, tuple):
            is_own = isinstance(given, Node) and len(given.users) == 1
            if not is_own or not _matches(wanted, given, bound, inner):
                return False
            inner.insert(0, given)
        elif is_open(given) or wanted != given:
            return False
    return True
