"""A Python function for a graph of operators: fused groups and single operators in a valid order."""

from __future__ import annotations

import heapq
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau.compiler import logs
from flambeau.compiler.emit.background import compile_later, tier
from flambeau.compiler.ir.dependences import Dependences, overload_of
from flambeau.compiler.ir.open_numbers import Number, is_open
from flambeau.compiler.passes.fusion import Group, boundary, groups_of, pays
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg

Step = Node | Group


def schedule(graph: Graph, dependences: Dependences, groups: list[Group]) -> list[Step]:
    """Return the calls in an order in which each has what it needs, otherwise as they were recorded."""
    place = {node: i for i, node in enumerate(graph.nodes)}
    step_of: dict[Node, Step] = {node: group for group in groups for node in group.nodes}
    steps: dict[int, Step] = {}
    missing: dict[int, set[int]] = {}
    for node in graph.nodes:
        if node.op == "call_function":
            step = step_of.setdefault(node, node)
            steps[id(step)] = step
            missing.setdefault(id(step), set())
    for node, step in step_of.items():
        needs = {id(step_of[n]) for n in dependences.before[node] if n in step_of}
        missing[id(step)] |= needs - {id(step)}
    after: dict[int, list[int]] = {}
    for key, needs in missing.items():
        for need in needs:
            after.setdefault(need, []).append(key)

    def rank(step: Step) -> int:
        return place[step.nodes[-1] if isinstance(step, Group) else step]

    ready = [(rank(steps[key]), key) for key, needs in missing.items() if not needs]
    heapq.heapify(ready)
    order: list[Step] = []
    while ready:
        _, key = heapq.heappop(ready)
        order.append(steps[key])
        for user in after.get(key, ()):
            missing[user].discard(key)
            if not missing[user]:
                heapq.heappush(ready, (rank(steps[user]), user))
    if len(order) != len(steps):
        raise AssertionError("schedule: expected groups that do not need each other in a circle")
    return order


def fused(group: Group) -> tuple[Any, list[str]]:
    """Return the loop of a group, and the texts of its parts if kernels are wanted for them.

    The loop is a function of the group's inputs that returns a list of its outputs.
    """
    values: dict[Node, Any] = {}
    for node in group.inputs:
        like = node.meta["val"]
        values[node] = like
        if like.is_meta:
            values[node] = flambeau.empty_strided(like.size(), like.stride(), dtype=like.dtype, device="cpu")
    recorder = flambeau._C._FusedRecorder([values[node] for node in group.inputs])
    with flambeau.no_grad(), recorder:
        for node in group.nodes:
            args = map_arg(node.args, values.__getitem__)
            values[node] = node.target(*args, **map_arg(node.kwargs, values.__getitem__))
    if recorder.steps != len(group.nodes):
        raise AssertionError("fused: one step for each node was expected")
    made = recorder.group([values[node] for node in group.outputs])
    return made, made.texts(*(values[node] for node in group.inputs)) if tier() else []


@dataclass
class Part:
    """A compiled function that a graph calls, and what wrote its programs."""

    run: Callable[..., Any]
    writers: list[Writer]


class Writer:
    """Writes the program of a graph.

    Args:
        graph: the graph; its output is a list or tuple of nodes and None.
        constants: tensors of its ``get_attr`` nodes, by target.
        takes_list: whether the program takes its inputs as one list, which it empties, so that it alone
            keeps them alive and can free each after its last use.
        into: for results of pointwise operators the placeholder of the tensor that they are written to.
    """

    def __init__(
        self,
        graph: Graph,
        constants: dict[str, Any],
        takes_list: bool = False,
        into: dict[Node, Node] | None = None,
    ) -> None:
        self.graph, self.takes_list, self.into = graph, takes_list, into or {}
        self.names: dict[str, Any] = {}  # the globals of the program
        self.text = ""  # of the program
        self.lines: list[str] = []
        self.groups: list[Group] = []
        self.parts: list[Writer] = []  # of branches and loops
        self.texts: list[tuple[Any, list[str]]] = []  # of the loops of groups: what kernels are made from
        self.could_fuse = False  # at other sizes
        for node in graph.nodes:
            if node.op == "get_attr":
                value = constants[str(node.target)]
                if isinstance(value, GraphModule):  # a branch
                    value = self._part(value)
                elif isinstance(value, Part):
                    self.parts += value.writers
                    value = value.run
                self.names[node.name] = value

    def _part(self, module: GraphModule) -> Callable[..., list[Any]]:
        names = [str(node.target) for node in module.graph.nodes if node.op == "get_attr"]
        held = {name: getattr(module, name) for name in names}
        run, writer = program(module.graph, held)
        self.parts.append(writer)
        return run

    def write(self) -> str:
        """Return the program's text."""
        dependences = Dependences(self.graph)
        found = groups_of(self.graph, dependences)
        self.could_fuse = bool(found) or any(part.could_fuse for part in self.parts)
        own = [group for group in found if pays(group)]
        grouped = {node for group in own for node in group.nodes}
        own += [boundary([node]) for node in self.into if node not in grouped]
        self.groups = own + [group for part in self.parts for group in part.groups]
        order = schedule(self.graph, dependences, own)
        ending = self._ending()
        last: dict[Node, int] = {}
        for i, step in enumerate(order):
            nodes = step.inputs if isinstance(step, Group) else step.all_input_nodes
            last.update(dict.fromkeys(nodes, i))
        kept = set(self._output().all_input_nodes)
        made: set[Node] = {n for n in self.graph.nodes if n.op == "placeholder"}
        for i, step in enumerate(order):
            results = step.outputs if isinstance(step, Group) else [step]
            self._call(i, step)
            made.update(results)
            done = [n.name for n, j in last.items() if j == i and n in made and n not in kept]
            unused = [n.name for n in results if n not in last and n not in kept]
            if done or unused:
                self.lines.append(f"del {', '.join([*done, *unused])}")
        inputs = [node.name for node in self.graph.nodes if node.op == "placeholder"]
        lines = [*self.lines, ending]
        if self.takes_list:
            unused = [node.name for node in made if node.op == "placeholder" and node not in {*last, *kept}]
            freed = [f"del {', '.join(sorted(unused))}"] if unused else []
            lines = [f"[{', '.join(inputs)}] = values", "values.clear()", *freed, *lines]
            inputs = ["values"]
        body = "".join(f"    {line}\n" for line in lines)
        return f"def program({', '.join(inputs)}):\n{body}"

    def described(self, text: str) -> str:
        """Return a program's text with the steps of its groups."""
        groups = {name: value for name, value in self.names.items() if hasattr(value, "describe")}
        shown = (f"{name}:\n{group.describe()}" for name, group in groups.items())
        return "\n".join([f"Program of a graph:\n{text}", *shown])

    def _output(self) -> Node:
        return next(node for node in reversed(self.graph.nodes) if node.op == "output")

    def _ending(self) -> str:
        values = self._output().args[0]
        return f"return [{', '.join(n.name if isinstance(n, Node) else 'None' for n in values)}]"

    def _call(self, place: int, step: Step) -> None:
        if isinstance(step, Group):
            name = f"group_{place}"
            self.names[name], texts = fused(step)
            self.texts.append((self.names[name], texts))
            outputs = ", ".join(node.name for node in step.outputs)
            given = [node.name for node in step.inputs]
            if any(node in self.into for node in step.outputs):
                targets = [self.into[n].name if n in self.into else "None" for n in step.outputs]
                name, given = f"{name}.into", [f"[{', '.join(targets)}]", *given]
            self.lines.append(f"{outputs}, = {name}({', '.join(given)})")
            return
        args = [self._text(a) for a in step.args]
        args += [f"{key}={self._text(value)}" for key, value in step.kwargs.items()]
        if step.target is operator.getitem:
            self.lines.append(f"{step.name} = {args[0]}[{args[1]}]")
            return
        name = f"op_{place}"
        self.names[name] = direct(step)
        if hasattr(step.target, "install"):  # a row kernel
            self.texts.append((step.target, [step.target.text]))
        self.lines.append(f"{step.name} = {name}({', '.join(args)})")

    def _text(self, value: Any) -> str:
        if isinstance(value, Node):
            return value.name
        if isinstance(value, list | tuple):
            inner = ", ".join(map(self._text, value))
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
        if is_open(value):
            self.names[value.name] = value.as_integer_ratio()[0] if isinstance(value, int) else value + 0.0
            return str(value.name)
        if value is None or type(value) in (int, bool, str):
            return repr(value)
        name = f"k_{len(self.names)}"
        self.names[name] = value
        return name


def direct(node: Node) -> Callable[..., Any]:
    """Return the quickest function that calls a node's overload."""
    overload = overload_of(node)
    if overload is None:
        target: Callable[..., Any] = node.target
        return target
    found = getattr(flambeau._C._functions, overload._entry.partition(".")[0], None)
    return found if found is not None and not overload._schema.is_mutable else overload


def program(
    graph: Graph,
    constants: dict[str, Any],
    takes_list: bool = False,
    into: dict[Node, Node] | None = None,
) -> tuple[Callable[..., list[Any]], Writer]:
    """Return the function of a graph and what wrote it."""
    writer = Writer(graph, constants, takes_list, into)
    text = writer.text = writer.write()
    logs.say("output_code", lambda: writer.described(text))
    names = dict(writer.names)
    exec(compile(text, "<program of a graph>", "exec"), names)
    run: Callable[..., list[Any]] = names["program"]
    run.__dict__["source"] = text
    compile_later(writer.texts)
    return run, writer


def rebound(run: Any, numbers: Mapping[str, Number]) -> Callable[..., list[Any]]:
    """Return the function of a graph at other sizes: with other open numbers, by name."""
    names = dict(run.__globals__)
    for name, value in run.__globals__.items():
        if hasattr(value, "bound"):
            names[name] = value.bound(numbers)
    names |= numbers
    made = types.FunctionType(run.__code__, names, run.__name__)
    made.__dict__["source"] = run.source
    return made
