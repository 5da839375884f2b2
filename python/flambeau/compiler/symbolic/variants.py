"""Runs one graph for many sizes: checks new sizes on "meta" tensors and compiles frequent ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.compiler.aot.examples import on_meta, without_memory
from flambeau.compiler.aot.state import kept_state, meta_as_cpu
from flambeau.compiler.symbolic.numbers import Journal
from flambeau.compiler.symbolic.templates import SERVED, TEMPLATES, Templates, stand_ins
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_aggregate
from flambeau.utils._python_dispatch import TorchDispatchMode

Compile = Callable[[Any, list[Any]], Callable[..., Any]]

# Limits per graph: how many sizes are compiled, and for how many sizes the result of the check is kept.
MOST_COMPILED = 32
MOST_KNOWN = 4096


class _WithoutMemory(TorchDispatchMode):
    """Makes factory functions create tensors on the device "meta"."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = on_meta(func, args, kwargs or {})
        return func(*args, **kwargs)


class Variants:
    """A captured graph with inputs whose sizes may differ from call to call.

    Args:
        graph: the graph's module, with nodes for the numbers that depend on sizes.
        whole: the graph with all nodes that the journal refers to.
        journal: the numbers of `whole`, and the facts that must hold.
        places: indices of the inputs whose sizes may differ.
        backend: compiles the graph.
        is_per_size: whether the backend compiles a graph for each size; if False, it compiles `graph` once.
    """

    def __init__(
        self,
        graph: GraphModule,
        whole: Graph,
        journal: Journal,
        places: list[int],
        backend: Compile,
        is_per_size: bool,
    ) -> None:
        self.graph, self.whole, self.places = graph, whole, places
        self.facts, self.numbers = journal.facts, set(journal.numbers)
        self.backend, self.is_per_size = backend, is_per_size
        self.is_broken = False  # the graph cannot run without memory
        self._shared: Callable[..., Any] = graph.forward
        self._known: dict[Any, Callable[..., Any] | None] = {}
        self._compiled = 0
        self._templates, self._earlier = Templates(), list[tuple[int, ...]]()

    def start(self, inputs: list[Any]) -> Callable[..., Any]:
        """Accept the sizes of the recording; compile the graph unless it is compiled for each size.

        Returns: `select`.
        """
        if not self.is_per_size:
            self._shared = self.backend(self.graph, inputs)
        key = self._key(tuple(inputs))
        self._known[key] = self._first(key)
        return self.select

    def select(self, *inputs: Any) -> Callable[..., Any] | None:
        """Return a function that computes the graph at these sizes; None if a fact does not hold."""
        key = self._key(inputs)
        try:
            return self._known[key]
        except KeyError:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            run = self._first(key) if self._values(inputs) is not None else None
            return self._known.setdefault(key, run)

    def _key(self, inputs: tuple[Any, ...]) -> Any:
        return tuple([(inputs[i].shape, inputs[i].stride()) for i in self.places])

    def _first(self, key: Any) -> Callable[..., Any]:
        """Return the function for the first call with these sizes; the second call compiles."""
        if not self.is_per_size:
            return self._shared

        def run(*inputs: Any) -> Any:
            if self._compiled < MOST_COMPILED or (self._templates.made and self._templates.is_open):
                self._known[key] = self._second(key)
            return self._shared(*inputs)

        return run

    def _second(self, key: Any) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            values = self._values(inputs)
            self._known[key] = made = self._shared if values is None else self._of_sizes(values, list(inputs))
            return made(*inputs)

        return run

    def _of_sizes(self, values: dict[Node, Any], inputs: list[Any]) -> Callable[..., Any]:
        if self._templates.records and not self._templates.made:
            self._generalize(inputs)
        module, outputs = self._module(values)
        compiled = self.backend(module, inputs)
        if not module.meta.get(SERVED):
            self._compiled += 1
            self._earlier = [tuple(inputs[i].size()) for i in self.places]
            if self._compiled >= MOST_COMPILED:
                self._templates.is_open = False
        gain = module.meta.get("gain")
        if all(place is not None for place, _ in outputs):
            return compiled if gain is not False else self._shared

        def run(*given: Any) -> Any:
            found = compiled(*given)
            return tuple(value if place is None else found[place] for place, value in outputs)

        return run

    def _module(self, values: dict[Node, Any]) -> tuple[GraphModule, list[tuple[int | None, Any]]]:
        graph, outputs = with_constants(self.whole, self.numbers, values)
        module = GraphModule(self.graph, graph, "CapturedGraph")  # self.graph may own branches of `cond`
        module.meta[TEMPLATES] = self._templates
        return module, outputs

    def _generalize(self, inputs: list[Any]) -> None:
        """Compile one program for many sizes if the graph's facts hold for sizes that nothing else equals."""
        given = stand_ins(inputs, self.places, self._earlier)
        was_broken = self.is_broken
        values = None if given is None else self._values(tuple(given))
        self.is_broken = was_broken
        if given is not None and values is not None:
            self.backend(self._module(values)[0], given)

    # --- facts --------------------------------------------------------------------------------------

    def _values(self, inputs: tuple[Any, ...]) -> dict[Node, Any] | None:
        """Return the numbers of the graph for these sizes; None if a fact does not hold for them."""
        try:
            with kept_state(), meta_as_cpu(), flambeau.no_grad(), _WithoutMemory():
                values = self._evaluated(inputs)
        except Exception:  # the program raises its own error when it is recorded for these sizes
            self.is_broken = True
            return None
        for node, expected in self.facts:
            found = values[node]
            if type(found) is not type(expected) or found != expected:
                return None
        return {node: values[node] for node in self.numbers}

    def _evaluated(self, inputs: tuple[Any, ...]) -> dict[Node, Any]:
        values: dict[Node, Any] = {}
        waiting = iter(inputs)
        for node in self.whole.nodes:
            if node.op == "placeholder":
                values[node] = without_memory(next(waiting)).detach()
            elif node.op in ("call_function", "call_method"):
                args = _given(node.args, values)
                kwargs = _given(node.kwargs, values)
                function: Any = (
                    node.target if node.op == "call_function" else getattr(type(args[0]), node.target)
                )
                values[node] = function(*args, **kwargs)
        return values


def _given(arguments: Any, values: dict[Node, Any]) -> Any:
    return map_aggregate(arguments, lambda a: values[a] if isinstance(a, Node) else a)


def with_constants(
    graph: Graph, numbers: set[Node], values: dict[Node, Any]
) -> tuple[Graph, list[tuple[int | None, Any]]]:
    """Copy a graph with its numbers as constants.

    Returns: the graph, which returns only the outputs that are tensors; and for each output a pair: its index
        among these and None, or None and the number.
    """
    made, copies = Graph(), dict[Node, Node]()
    outputs: list[tuple[int | None, Any]] = []

    def copied(node: Node) -> Any:
        return values[node] if node in numbers else copies[node]

    for node in graph.nodes:
        if node.op == "output":
            kept = [n for n in node.args[0] if n not in numbers]
            outputs = [(None, values[n]) if n in numbers else (kept.index(n), None) for n in node.args[0]]
            made.output(tuple(copies[n] for n in kept))
        elif node not in numbers:
            copies[node] = made.node_copy(node, copied)
    return made, outputs


def without_idle_numbers(graph: Graph, numbers: set[Node]) -> Graph:
    """Copy a graph without the numbers that no operator and no result needs."""
    needed: set[Node] = set()
    for node in reversed(graph.nodes):
        if node not in numbers or node in needed:
            needed.update(node.all_input_nodes)
    made, copies = Graph(), dict[Node, Node]()
    for node in graph.nodes:
        if node.op == "output":
            made.output(map_aggregate(node.args[0], lambda n: copies[n]))
        elif node not in numbers or node in needed:
            copies[node] = made.node_copy(node, lambda n: copies[n])
    return made
