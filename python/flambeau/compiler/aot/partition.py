"""Division of a joint graph into forward and backward graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flambeau.compiler.aot.joint import Joint
from flambeau.compiler.ir.dependences import is_random, written
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node


@dataclass
class Parts:
    """The two graphs.

    Args:
        forward: takes the inputs; returns the outputs, then the saved values.
        backward: takes the saved values, then the outputs' gradients; returns those of the inputs.
        saved: the number of saved values.
        saved_inputs: places of the inputs among the saved values, which come first.
    """

    forward: Graph
    backward: Graph
    saved: int
    saved_inputs: list[int]


def divide(joint: Joint) -> Parts:
    """Divide a joint graph where its backward operators begin.

    What forward computed and backward reads is saved, as autograd does.
    """
    nodes = list(joint.graph.nodes)
    tangents = set(joint.tangents)
    calls = [node for node in nodes if node.op in ("call_function", "get_attr")]
    count = joint.forward - len(joint.inputs)
    first, second = calls[:count], _needed(calls[count:], [g for g in joint.gradients if g is not None])
    made = {*first, *joint.inputs}
    ends = {n for n in joint.gradients if n is not None}
    read = {n for node in second for n in node.all_input_nodes} | ends
    saved_inputs = [i for i, node in enumerate(joint.inputs) if node in read]
    saved = [n for n in first if n in read and n.op != "get_attr"]
    everything = [joint.inputs[i] for i in saved_inputs] + saved
    forward = _graph(joint.inputs, first, [*joint.outputs, *saved])
    attributes = [n for n in first if n.op == "get_attr" and n in read]
    backward = _graph([*everything, *joint.tangents], [*attributes, *second], joint.gradients)
    assert read <= made | tangents | set(second), "divide: backward reads a value that nobody computes"
    return Parts(forward, backward, len(everything), saved_inputs)


def _needed(nodes: list[Node], ends: list[Node]) -> list[Node]:
    """The nodes that the ends read, or that have an effect."""
    wanted: set[Node] = set(ends)
    kept = []
    for node in reversed(nodes):
        if node in wanted or written(node) or is_random(node):
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
