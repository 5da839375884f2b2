"""`cond` in graphs that are recorded ahead of time: both branches become graphs below autograd.

The forward pass is one node, which runs a branch. The backward pass is another node: it runs the chosen
branch again and computes its gradients, so only the condition and the operands are saved. A branch that draws
random numbers would draw different ones the second time, so a graph with such a branch is not recorded ahead
of time and runs as it was captured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau._operators.control_flow import cond
from flambeau.compiler.aot.examples import NotAhead
from flambeau.compiler.aot.loops import LOOPS, record_attention, record_loop
from flambeau.compiler.ir.dependences import is_random, written
from flambeau.fx.experimental._operator_trace import OperatorTracer
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node
from flambeau.nn.attention._of_graph import flex_attention_of_graph
from flambeau.utils._python_dispatch import TorchDispatchModeKey, _pop_mode_temporarily

if TYPE_CHECKING:
    from flambeau.compiler.aot.joint import Joint

Record = Callable[[Any, list[Any]], "Joint"]
_COND: Any = cond


def has_branches(module: Any) -> bool:
    """Whether a captured graph contains `cond` or a loop."""
    return any(
        node.target is _COND or node.target is flex_attention_of_graph or node.target in LOOPS
        for node in module.graph.nodes
    )


class BranchRunner(Interpreter):
    """Runs a captured graph on tensors without memory; `cond` and loops are recorded with their functions.

    Args:
        module: the captured graph.
        tracer: receives the nodes.
        record: records a graph ahead of time.
    """

    def __init__(self, module: Any, tracer: OperatorTracer, record: Record) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.tracer, self.record = tracer, record

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function; record it as one node if it is `cond` or a loop."""
        if target in LOOPS:
            return record_loop(self.tracer, self.record, target, args)
        if target is flex_attention_of_graph:
            return record_attention(self.tracer, args)
        if target is not _COND:
            return super().call_function(target, args, kwargs)
        pred, *modules, operands = args
        with _pop_mode_temporarily(TorchDispatchModeKey.PROXY):
            joints = [self.record(module, list(operands)) for module in modules]
        return _recorded(self.tracer, joints, pred, operands)


def _recorded(tracer: OperatorTracer, joints: list[Joint], pred: Any, operands: Any) -> Any:
    _check(joints)
    forward = [_forward(joint) for joint in joints]
    backward = _backward(joints) if joints[0].differentiable else []
    values = [node.meta["val"] for node in joints[0].outputs]
    places = joints[0].differentiable
    taken = [tracer.node_of(operand) for operand in operands]

    class CondBackward(flambeau.autograd.Function):
        """The two nodes of one `cond`."""

        @staticmethod
        def forward(ctx: Any, condition: Any, *given: Any) -> Any:
            made = tuple(map(_like, values))
            _add(tracer, condition, forward, taken, made)
            ctx.save_for_backward(*given)
            ctx.mark_non_differentiable(*[t for i, t in enumerate(made) if i not in places])
            return made

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            _ = ctx.saved_tensors  # raises an error if one was changed after the forward pass
            tangents = [tracer.node_of(gradients[i]) for i in places]
            wanted = [any(pair) for pair in zip(*[joint.gradients for joint in joints], strict=True)]
            pairs = zip(operands, wanted, strict=True)
            made = [_like(operand) if is_used else None for operand, is_used in pairs]
            _add(tracer, pred, backward, [*taken, *tangents], [t for t in made if t is not None])
            return None, *made

    return CondBackward.apply(pred, *operands)


def _like(value: Any) -> Any:
    """Make a tensor on "meta" with another one's geometry, without adding a node to a graph."""
    with _pop_mode_temporarily(TorchDispatchModeKey.PROXY), flambeau.no_grad():
        return flambeau.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")


def _add(
    tracer: OperatorTracer, pred: Any, branches: list[GraphModule], given: list[Node], made: Any
) -> None:
    """Add the node of a `cond` call and the nodes of its results."""
    names = [f"branch_{len(vars(tracer.root)['_modules']) + i}" for i in range(len(branches))]
    nodes = []
    for name, branch in zip(names, branches, strict=True):
        tracer.root.add_module(name, branch)
        nodes.append(tracer.graph.get_attr(name))
    args = (tracer.node_of(pred), *nodes, tuple(given))
    node = tracer.graph.create_node("call_function", _COND, args, {}, "cond")
    tracer.assign(tuple(made), node)


def _check(joints: list[Joint]) -> None:
    """Refuse branches that cannot run twice, or whose results differ in properties that graphs rely on."""
    one, other = joints
    for joint in joints:
        if any(is_random(node) for node in joint.graph.nodes):
            raise NotAhead("cond with a branch that draws random numbers")
        if joint.end is not None or any(
            n in joint.inputs for node in joint.graph.nodes for n in written(node)
        ):
            raise NotAhead("cond with a branch that has effects")
    facts = [[_facts(node.meta.get("val")) for node in joint.outputs] for joint in joints]
    if facts[0] != facts[1] or one.differentiable != other.differentiable or None in facts[0]:
        raise NotAhead("cond with branches whose results differ in shape, strides, dtype or gradients")
    if one.tangent_layouts != other.tangent_layouts:
        raise NotAhead("cond with branches whose gradients differ in strides")


def _facts(value: Any) -> Any:
    return None if value is None else (value.size(), value.stride(), value.dtype)


def _forward(joint: Joint) -> GraphModule:
    calls = [node for node in joint.graph.nodes if node.op != "placeholder"]
    count = joint.forward - len(joint.inputs)
    return _module(joint, joint.inputs, calls[:count], joint.outputs)


def _backward(joints: list[Joint]) -> list[GraphModule]:
    """Return the graphs that compute the gradients of the operands that have one in either branch."""
    places = [i for i, pair in enumerate(zip(*[j.gradients for j in joints], strict=True)) if any(pair)]
    made = []
    for joint in joints:
        calls = [node for node in joint.graph.nodes if node.op != "placeholder"]
        ends = [joint.gradients[i] or joint.inputs[i] for i in places]
        zeros = [k for k, i in enumerate(places) if joint.gradients[i] is None]
        module = _module(joint, [*joint.inputs, *joint.tangents], calls, ends)
        made.append(_with_zeros(module, zeros, [joint.inputs[i].meta["val"] for i in places]))
    return made


def _module(joint: Joint, inputs: list[Node], calls: list[Node], outputs: list[Node]) -> GraphModule:
    graph, copies = Graph(), dict[Node, Node]()
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in calls:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([copies[node] for node in outputs])
    for node in reversed(list(graph.nodes)):
        if node.op not in ("placeholder", "output") and not node.users and not written(node):
            graph.erase_node(node)
    root = {name: value for name, value in joint.constants.items() if _is_used(graph, name)}
    return GraphModule(root, graph, "Branch")


def _is_used(graph: Graph, name: str) -> bool:
    return any(node.op == "get_attr" and node.target == name for node in graph.nodes)


def _with_zeros(module: GraphModule, places: list[int], likes: list[Any]) -> GraphModule:
    """Add zeros, in the operands' strides, for operands that have a gradient only in the other branch."""
    output = next(node for node in reversed(module.graph.nodes) if node.op == "output")
    results = list(output.args[0])
    for k, like in enumerate(likes):
        with module.graph.inserting_before(output):
            if k in places:
                made = module.graph.call_function(flambeau.ops.aten.zeros_like.default, (results[k],))
                made.meta["val"] = _like(like)
                results[k] = made
    output.args = (results,)
    module.recompile()
    return module
