"""Splits a traced model into one graph per stage."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed.pipelining._split_points import pipe_split
from flambeau.fx import Graph, GraphModule, Interpreter, Node
from flambeau.fx.node import map_arg
from flambeau.nn import Module
from flambeau.utils._pytree import tree_leaves, tree_map_only


class _Values(Interpreter):
    """Runs a graph, and keeps what each node returns unless it is a tensor."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.constants: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if not isinstance(value, Tensor):
            self.constants[n] = value
        return value


def values_that_are_no_tensors(
    module: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[Node, Any]:
    """Run a model once without effects on it, and return what its nodes give except tensors."""
    if any(parameter.is_meta for parameter in module.parameters()):
        args, kwargs = tree_map_only(Tensor, lambda tensor: tensor.to("meta"), (args, kwargs))
    names = [node.target for node in module.graph.nodes if node.op == "placeholder"]
    given = dict(zip(names, args, strict=False)) | kwargs
    defaults = {n.target: n.args[0] for n in module.graph.nodes if n.op == "placeholder" and n.args}
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers() if not buffer.is_meta]
    runner = _Values(module)
    with flambeau.no_grad(), flambeau.random.fork_rng():
        try:
            runner.run(*[given.get(name, defaults.get(name)) for name in names])
        finally:
            for buffer, before in buffers:
                buffer.copy_(before)
    return runner.constants


class StageGraphs:
    """The graphs of the stages of a traced model.

    What a later stage needs of an earlier one passes through the stages between them. Numbers become
    constants.

    Args:
        module: the traced model, with calls of `pipe_split`.
        constants: what its nodes give, except tensors.
    """

    def __init__(self, module: GraphModule, constants: dict[Node, Any]) -> None:
        self._module, self._constants = module, constants
        self._stage = self._assigned()
        self.count = 1 + max(self._stage.values(), default=0)
        self._needed = self._uses()
        self._check_parameters()

    def _assigned(self) -> dict[Node, int]:
        """Return the stage of each node that computes."""
        found: dict[Node, int] = {}
        number = 0
        for node in self._module.graph.nodes:
            if node.op == "call_function" and node.target is pipe_split:
                number += 1
            elif node.op.startswith("call_"):
                source = node.args[0] if node.target is operator.getitem else None
                # An element of a tuple stays with the tuple, since stages exchange tensors alone.
                with_source = isinstance(source, Node) and source in self._constants and source in found
                found[node] = found[source] if with_source and isinstance(source, Node) else number
        missing = set(range(number + 1)) - set(found.values())
        if missing and number:
            raise ValueError(f"pipeline: expected computations in each stage, got none in {sorted(missing)}")
        return found

    def _uses(self) -> dict[Node, int]:
        """Return the last stage that uses a value of an earlier one."""
        last: dict[Node, int] = {}
        for node in self._module.graph.nodes:
            stage = self.count - 1 if node.op == "output" else self._stage.get(node)
            if stage is not None:
                for used in node.all_input_nodes:
                    last[used] = max(stage, last.get(used, 0))
        return last

    def _check_parameters(self) -> None:
        """Raise ValueError if two stages would train a parameter."""
        owner: dict[int, int] = {}
        for node in self._module.graph.nodes:
            for parameter in self._parameters_of(node):
                for stage in self._stages_of(node):
                    if owner.setdefault(id(parameter), stage) != stage:
                        raise ValueError(
                            f"pipeline: expected each parameter in one stage, got {node.target} in "
                            f"stages {owner[id(parameter)]} and {stage}"
                        )

    def _stages_of(self, node: Node) -> Iterable[int]:
        if node.op == "get_attr":
            uses = {self.count - 1 if user.op == "output" else self._stage[user] for user in node.users}
            return sorted(uses)
        return [self._stage[node]]

    def _parameters_of(self, node: Node) -> Iterable[Tensor]:
        if node.op == "call_module":
            return list(self._module.get_submodule(str(node.target)).parameters())
        if node.op == "get_attr":
            value: Any = self._module
            for name in str(node.target).split("."):
                value = getattr(value, name)
            return [value] if isinstance(value, flambeau.nn.Parameter) else []
        return []

    def _passed(self, stage: int) -> list[Node]:
        """Return the tensors that a stage gives to the next one."""
        return [
            node
            for node in self._module.graph.nodes
            if node.op != "get_attr"
            and self._stage.get(node, 0) <= stage < self._needed.get(node, 0)
            and node not in self._constants
        ]

    def _constant(self, node: Node) -> Any:
        value = self._constants[node]
        if any(isinstance(leaf, Tensor) for leaf in tree_leaves(value)):
            raise ValueError(
                f"pipeline: expected tensors and numbers between stages, got {type(value).__name__} of {node}"
            )
        return value

    def make(self, stage: int) -> GraphModule:
        """Return the module of a stage, whose attributes have their paths in the model."""
        graph = Graph()
        own: dict[Node, Node] = {}
        nodes = list(self._module.graph.nodes)
        inputs = [n for n in nodes if n.op == "placeholder"] if stage == 0 else self._passed(stage - 1)
        for node in inputs:
            own[node] = graph.node_copy(node) if stage == 0 else graph.placeholder(node.name)

        def local(node: Node) -> Any:
            if node not in own and node.op == "get_attr":
                own[node] = graph.node_copy(node)
            return own[node] if node in own else self._constant(node)

        for node in nodes:
            if self._stage.get(node) == stage:
                own[node] = self._copied(graph, node, local)
        if stage == self.count - 1:
            output = next(node for node in nodes if node.op == "output")
            graph.output(map_arg(output.args[0], local))
        else:
            results = tuple(own[node] for node in self._passed(stage))
            graph.output(results[0] if len(results) == 1 else results)
        made = GraphModule(self._module, graph, class_name=f"Stage{stage}")
        made.training = self._module.training
        return made

    @staticmethod
    def _copied(graph: Graph, node: Node, local: Any) -> Node:
        args, kwargs = map_arg(node.args, local), map_arg(node.kwargs, local)
        made = graph.create_node(node.op, node.target, args, kwargs, node.name)
        made.meta = dict(node.meta)
        return made

    def whole(self, stages: list[Module]) -> GraphModule:
        """Return the model as calls of its stages."""
        graph = Graph()
        values: dict[Node, Node] = {}
        root = Module()
        for node in self._module.graph.nodes:
            if node.op == "placeholder":
                values[node] = graph.node_copy(node)
        inputs = list(values)
        for number, stage in enumerate(stages):
            name = f"submod_pp_{number}"
            root.add_module(name, stage)
            call = graph.call_module(name, tuple(values[node] for node in inputs))
            if number == self.count - 1:
                graph.output(call)
                break
            inputs = self._passed(number)
            for place, node in enumerate(inputs):
                one = len(inputs) == 1
                values[node] = call if one else graph.call_function(operator.getitem, (call, place))
        return GraphModule(root, graph)
