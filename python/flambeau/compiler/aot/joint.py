"""One graph of forward and backward operators, recorded on tensors without memory."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import flambeau
from flambeau.compiler.aot.branches import BranchRunner, has_branches
from flambeau.compiler.aot.examples import NotAhead, on_meta, without_memory
from flambeau.compiler.aot.state import ThreadState, kept_state, meta_as_cpu
from flambeau.fx.experimental._operator_trace import OperatorTracer, RecordingMode
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_aggregate

Layout = tuple[tuple[int, ...], tuple[int, ...], Any]  # sizes, strides, dtype


@dataclass
class Joint:
    """The recorded graph.

    Args:
        graph: inputs, forward operators, then backward operators.
        inputs: the placeholders of the captured graph's inputs.
        outputs: the outputs of the captured graph.
        tangents: placeholders of the gradients of those outputs that have one.
        tangent_layouts: their sizes, strides and dtypes, which the backward operators rely on.
        gradients: for each input its gradient, or None.
        reached_by: for each input, a bit set of the tangents that its gradient depends on.
        differentiable: indices of the outputs that have a gradient.
        forward: the number of nodes that belong to forward, placeholders among them.
        constants: tensors that are neither inputs nor results, by the names of their nodes.
        numbers: the names of constants that operators made from Python numbers while they were recorded.
        end: the state of the thread after the captured graph; None if the graph does not change the state.
    """

    graph: Graph
    inputs: list[Node]
    outputs: list[Node]
    tangents: list[Node] = field(default_factory=list)
    tangent_layouts: list[Layout] = field(default_factory=list)
    gradients: list[Node | None] = field(default_factory=list)
    reached_by: list[int] = field(default_factory=list)
    differentiable: list[int] = field(default_factory=list)
    forward: int = 0
    constants: dict[str, Any] = field(default_factory=dict)
    numbers: set[str] = field(default_factory=set)
    end: ThreadState | None = None


class _Recorder:
    def __init__(self, module: Any, examples: list[Any]) -> None:
        self.module = module
        self.tracer = OperatorTracer()
        self.mode = RecordingMode(self.tracer, adapt=on_meta)
        self.inputs = [without_memory(example) for example in examples]
        self.nodes = [self._placeholder(f"in_{i}", tensor) for i, tensor in enumerate(self.inputs)]

    def _placeholder(self, name: str, tensor: Any) -> Node:
        graph = self.tracer.graph
        last = [node for node in graph.nodes if node.op == "placeholder"]
        with graph.inserting_after(last[-1]) if last else graph.inserting_before(None):
            node = graph.placeholder(name)
        self.tracer.assign(tensor, node)
        return node

    def _run(self) -> Any:
        if has_branches(self.module):
            return BranchRunner(self.module, self.tracer, record).run(*self.inputs)
        return self.module.forward(*self.inputs)

    def forward(self) -> tuple[list[Any], ThreadState | None]:
        """Run the graph; return its results and, if the graph changed it, the state of the thread."""
        begin = ThreadState.now()
        with kept_state(), meta_as_cpu():
            with self.mode:
                outputs = list(self._run())
            end = ThreadState.now()
        if not all(isinstance(output, flambeau.Tensor) for output in outputs):
            raise NotAhead("a result that is not a tensor")
        if end.is_inference != begin.is_inference or any(
            output.is_inference() != begin.is_inference for output in outputs
        ):
            raise NotAhead("a graph that enters or leaves inference mode")
        return outputs, None if end == begin else end

    def backward(self, joint: Joint, outputs: list[Any]) -> None:
        ends = [outputs[i] for i in joint.differentiable]
        with flambeau.no_grad():
            tangents = [
                flambeau.empty_strided(end.size(), end.stride(), dtype=end.dtype, device="meta")
                for end in ends
            ]
        joint.tangents = [self._placeholder(f"tangent_{i}", t) for i, t in enumerate(tangents)]
        joint.tangent_layouts = [(tuple(t.size()), tuple(t.stride()), t.dtype) for t in tangents]
        starts = [tensor for tensor in self.inputs if tensor.requires_grad]
        with kept_state(), self.mode:
            flambeau.set_autocast_enabled("cpu", False)  # programs call backward outside autocast regions
            found = flambeau.autograd.grad(ends, starts, tangents, allow_unused=True)
        by_start = {id(start): gradient for start, gradient in zip(starts, found, strict=True)}
        gradients = [by_start.get(id(tensor)) for tensor in self.inputs]
        joint.gradients = [None if g is None else self.tracer.node_of(g) for g in gradients]
        joint.reached_by = _reached_by(joint)


def record(module: Any, examples: list[Any]) -> Joint:
    """Record a captured graph and, where a result requires a gradient, its backward pass.

    Args:
        module: the captured `fx.GraphModule`; its forward returns a tuple of tensors.
        examples: its inputs.
    Raises: `NotAhead` for a graph that cannot be recorded; an operator's error if it needs memory to run.
    """
    recorder = _Recorder(module, examples)
    versions = [tensor._version for tensor in recorder.inputs]
    was_differentiable = [tensor.requires_grad for tensor in recorder.inputs]
    outputs, end = recorder.forward()
    tracer = recorder.tracer
    joint = Joint(tracer.graph, recorder.nodes, [tracer.node_of(output) for output in outputs], end=end)
    joint.forward = sum(1 for _ in tracer.graph.nodes)
    joint.differentiable = [i for i, output in enumerate(outputs) if output.requires_grad]
    if joint.differentiable:
        _check_sharing(joint, recorder.inputs, outputs)
    for tensor, version, before in zip(recorder.inputs, versions, was_differentiable, strict=True):
        if tensor._version != version and (before or tensor.requires_grad):
            raise NotAhead("a write to an input that requires a gradient")
    if joint.differentiable:
        recorder.backward(joint, outputs)
    joint.constants = _constants(tracer)
    joint.numbers = _made_of_numbers(module, joint.constants)
    _check_offsets(tracer.graph, recorder.inputs)
    _name_devices(tracer.graph)
    return joint


def _reached_by(joint: Joint) -> list[int]:
    bits = {tangent: 1 << i for i, tangent in enumerate(joint.tangents)}
    for node in joint.graph.nodes:
        for source in node.all_input_nodes:
            bits[node] = bits.get(node, 0) | bits.get(source, 0)
    return [0 if node is None else bits.get(node, 0) for node in joint.gradients]


def _check_offsets(graph: Graph, inputs: list[Any]) -> None:
    """Refuse views at fixed offsets in an input's memory, because guards do not check storage offsets."""
    storages = [tensor.untyped_storage() for tensor in inputs]
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema else []
        if "storage_offset" not in names:
            continue
        place = names.index("storage_offset")
        given = node.args[place] if place < len(node.args) else node.kwargs.get("storage_offset")
        tensors = [n.meta["val"] for n in node.all_input_nodes if n.meta.get("val") is not None]
        memory = [tensor.untyped_storage() for tensor in tensors]
        if given is not None and any(one is other for one in memory for other in storages):
            raise NotAhead("a view at a fixed offset in the memory of an input")


def _name_devices(graph: Graph) -> None:
    """Replace the device "meta", which composites take from their arguments, by the CPU."""

    def is_meta(value: Any) -> bool:
        return isinstance(value, flambeau.device) and value.type == "meta"

    def real(value: Any) -> Any:
        return flambeau.device("cpu") if is_meta(value) else value

    for node in graph.nodes:
        if any(map(is_meta, (*node.args, *node.kwargs.values()))):
            node.args = map_aggregate(node.args, real)
            node.kwargs = map_aggregate(node.kwargs, real)


def _constants(tracer: OperatorTracer) -> dict[str, Any]:
    found = {n.target: getattr(tracer.root, str(n.target)) for n in tracer.graph.nodes if n.op == "get_attr"}
    if any(isinstance(value, flambeau.Tensor) and value.is_meta for value in found.values()):
        raise NotAhead("a tensor that was made while the graph was recorded")
    return found


def _made_of_numbers(module: Any, constants: dict[str, Any]) -> set[str]:
    """Return the constants without dimensions that the captured graph does not hold."""
    nodes = module.graph.nodes if isinstance(module, GraphModule) else ()
    own = [operator.attrgetter(str(node.target))(module) for node in nodes if node.op == "get_attr"]
    return {
        name
        for name, value in constants.items()
        if isinstance(value, flambeau.Tensor) and value.dim() == 0 and all(value is not x for x in own)
    }


def _check_sharing(joint: Joint, inputs: list[Any], outputs: list[Any]) -> None:
    """Refuse results that share memory: autograd would need to know their bases."""
    storages = [tensor.untyped_storage() for tensor in inputs]
    for output in outputs:
        storage = output.untyped_storage()
        if any(storage is other for other in storages):
            raise NotAhead("a result that shares memory with an input or another result")
        storages.append(storage)
