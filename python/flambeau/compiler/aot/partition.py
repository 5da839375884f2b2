"""Division of a joint graph into forward and backward graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flambeau.compiler.aot.cut import Forward, chosen, solver
from flambeau.compiler.aot.joint import Joint
from flambeau.compiler.ir.dependences import is_ordered, written
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node


@dataclass
class Parts:
    """The two graphs.

    Args:
        forward: takes the inputs; returns the outputs, then the saved values.
        backward: takes the saved values, then the outputs' gradients; returns those of the inputs.
        saved: the number of saved values.
        saved_inputs: indices of the saved inputs, which come first among the saved values.
        repeated: the number of forward operators that backward computes again.
    """

    forward: Graph
    backward: Graph
    saved: int
    saved_inputs: list[int]
    repeated: int = 0


def divide(joint: Joint, budget: float = 1.0) -> Parts:
    """Divide a joint graph where its backward operators begin.

    Forward saves the values that backward reads, as autograd does; backward recomputes values where that is
    cheap and saves memory (`cut`).

    Args:
        joint: the recorded graph.
        budget: how much memory saved values may take, from 0 (the minimum) to 1.
    """
    nodes = list(joint.graph.nodes)
    tangents = set(joint.tangents)
    calls = [node for node in nodes if node.op in ("call_function", "get_attr")]
    count = joint.forward - len(joint.inputs)
    first, second = calls[:count], _needed(calls[count:], [g for g in joint.gradients if g is not None])
    made = {*first, *joint.inputs}
    ends = {n for n in joint.gradients if n is not None}
    read = {n for node in second for n in node.all_input_nodes} | ends
    assert read <= made | tangents | set(second), "divide: backward reads a value that no node computes"
    kept, again = _kept(joint, first, second, read, budget)
    saved_inputs = [i for i, node in enumerate(joint.inputs) if node in kept]
    saved = [n for n in first if n in kept]
    everything = [joint.inputs[i] for i in saved_inputs] + saved
    forward = _graph(joint.inputs, first, [*joint.outputs, *saved])
    read = read | {n for node in again for n in node.all_input_nodes}
    attributes = [n for n in first if n.op == "get_attr" and n in read]
    backward = [*attributes, *_with_repeated(second, again)]
    return Parts(
        forward,
        _graph([*everything, *joint.tangents], backward, joint.gradients),
        len(everything),
        saved_inputs,
        len(again),
    )


def _kept(
    joint: Joint, first: list[Node], second: list[Node], read: set[Node], budget: float
) -> tuple[set[Node], list[Node]]:
    """Return the values that forward saves and the forward operators that backward repeats."""
    saved = [n for n in (*joint.inputs, *first) if n in read and n.op != "get_attr"]
    forward = Forward(joint.inputs, first, joint.outputs, saved, second)
    if solver() is None or not (forward.could_gain() or budget < 1):
        return set(saved), []
    kept = chosen(forward, budget)
    return set(kept), forward.repeated(kept)


def _with_repeated(second: list[Node], again: list[Node]) -> list[Node]:
    """Put each repeated operator before the first one that reads its result, to free it early."""
    waiting, order = set(again), list[Node]()

    def put(node: Node) -> None:
        needed, stack = list[Node](), [n for n in node.all_input_nodes if n in waiting]
        while stack:
            n = stack.pop()
            if n in waiting:
                waiting.discard(n)
                needed.append(n)
                stack += n.all_input_nodes
        order.extend(sorted(needed, key=place.__getitem__))

    place = {node: i for i, node in enumerate(again)}
    for node in second:
        put(node)
        order.append(node)
    return [*order, *(node for node in again if node in waiting)]


def _needed(nodes: list[Node], ends: list[Node]) -> list[Node]:
    """The nodes that `ends` depend on, and the nodes that have an effect."""
    wanted: set[Node] = set(ends)
    kept = []
    for node in reversed(nodes):
        if node in wanted or written(node) or is_ordered(node):
            wanted.update(node.all_input_nodes)
            kept.append(node)
    return kept[::-1]


def _graph(inputs: list[Node], nodes: list[Node], outputs: list[Any]) -> Graph:
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([None if node is None else copies[node] for node in outputs])
    return graph
