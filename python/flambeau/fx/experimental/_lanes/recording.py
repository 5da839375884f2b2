"""The graph of a program with symbolic sizes: the operators of all lanes become its nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._object.subclass import DisableTorchDispatch
from flambeau._subclasses.fake_tensor import FakeTensor
from flambeau.fx.experimental._described import DescribingTracer
from flambeau.fx.experimental._lanes.calls import Call, Outcome, part
from flambeau.fx.experimental._lanes.number_nodes import NumberNodes
from flambeau.fx.experimental._lanes.sampling import Lane
from flambeau.fx.experimental._lanes.tensor import SymbolicFakeTensor
from flambeau.fx.experimental._lanes.values import SYMBOLIC, leaves
from flambeau.fx.experimental._operator_trace import _is_without_memory, _place
from flambeau.fx.node import Node
from flambeau.fx.passes.shape_prop import _extract_tensor_metadata
from flambeau.utils._python_dispatch import (
    TorchDispatchMode,
    TorchDispatchModeKey,
    _disable_current_modes,
)

_FULL = flambeau.ops.aten.full.default


class _Known:
    """The nodes of the tensors of one lane."""

    def __init__(self) -> None:
        self._of_id: dict[int, tuple[Node, Any]] = {}
        self._of_place: dict[Any, Node] = {}
        self._storages: list[Any] = []
        self.constants: dict[int, tuple[Any, Any]] = {}  # id -> tensor, its elements before a write

    def constant_of(self, tensor: Any) -> Any:
        """Return the elements, before any write, of a tensor that Python's data made; None for others."""
        found = self.constants.get(id(tensor))
        return _constant_of(tensor) if found is None else found[1]

    def note_constant(self, tensor: Any) -> None:
        """Keep the elements of a tensor that an operator may write to."""
        constant = _constant_of(tensor)
        if constant is not None and id(tensor) not in self.constants:
            with DisableTorchDispatch():
                self.constants[id(tensor)] = (tensor, constant.clone())

    def remember(self, tensor: Any, node: Node) -> None:
        """Note that a tensor is the value of a node."""
        self._of_id[id(tensor)] = (node, tensor)
        if _is_without_memory(tensor):
            self._storages.append(tensor.untyped_storage())  # kept alive, so that ids stay unique
            self._of_place[_place(tensor)] = node

    def node_of(self, tensor: Any) -> Node | None:
        """Return the node of a tensor, or None."""
        found = self._of_id.get(id(tensor))
        if found is not None:
            return found[0]
        return self._of_place.get(_place(tensor)) if _is_without_memory(tensor) else None


class _Log(TorchDispatchMode):
    """The region in which the operators of one lane are noted.

    Args:
        log: receives (overload, args, kwargs, result).
        known: keeps the elements of tensors that operators write to.
        decompositions: overload -> function whose operators are noted instead.
    """

    _mode_key = TorchDispatchModeKey.PROXY

    def __init__(self, log: list[Any], known: _Known, decompositions: Any) -> None:
        super().__init__()
        self.known = known
        self.log, self.decompositions = log, decompositions or {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator and note it."""
        kwargs = kwargs or {}
        if func in self.decompositions:
            with self:
                return self.decompositions[func](*args, **kwargs)
        if func._schema.is_mutable:
            for leaf in leaves((args, kwargs)):
                self.known.note_constant(leaf)
        result = func(*args, **kwargs)
        self.log.append((func, args, kwargs, result))
        return result


class Recording(TorchDispatchMode):
    """The region in which a program is recorded; operators are noted in the lanes.

    Args:
        tracer: holds the graph.
    """

    _mode_key = TorchDispatchModeKey.PROXY

    def __init__(self, tracer: SymbolicTracer) -> None:
        super().__init__()
        self.tracer = tracer

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator."""
        return func(*args, **(kwargs or {}))


class SymbolicTracer(DescribingTracer):
    """A tracer whose nodes are described by tensors with symbolic sizes.

    Args:
        program: the program.
        record_stack_traces: whether nodes hold the lines of the program that called their operators.
    """

    def __init__(self, program: Any, record_stack_traces: bool) -> None:
        super().__init__(record_stack_traces)
        self.program = program
        self.numbers = NumberNodes(self, program)
        self.geometries: dict[int, Any] = {}  # id of a tensor of lane 0 -> sizes, strides, offset

    def describe(self, node: Node, value: Any, is_constant: bool = False) -> None:
        """Write a description of a node's value to its meta."""
        geometry = self.geometries.get(id(value))
        if geometry is None:
            super().describe(node, value, is_constant)
        elif "val" not in node.meta:
            made = SymbolicFakeTensor.over(self.program, None, value, geometry)
            node.meta["val"] = made
            with DisableTorchDispatch():
                example = _extract_tensor_metadata(value)
            node.meta["tensor_meta"] = example._replace(shape=made._sizes, stride=made._strides)
            self.numbers.note_sizes(node, geometry)

    def constant_of(self, tensor: Any) -> Any:
        """Return the elements, before any write, of a fake tensor that was made from Python numbers."""
        return _known(self.program.lanes[0]).constant_of(tensor) if isinstance(tensor, FakeTensor) else None

    def create_arg(self, a: Any) -> Any:
        """Return a value as an argument of a node."""
        if isinstance(a, SYMBOLIC):
            return self.numbers.node_of(a.node.expr)
        if isinstance(a, SymbolicFakeTensor):
            return self.node_of(a.lane)
        return super().create_arg(a)


class Recorder:
    """Makes one node for each operator that a call runs in every lane.

    Args:
        program: the program.
        tracer: holds the graph.
        decompositions: overload -> function whose operators are recorded instead.
    """

    def __init__(self, program: Any, tracer: SymbolicTracer, decompositions: Any) -> None:
        self.program, self.tracer, self.decompositions = program, tracer, decompositions
        self._inputs: dict[int | None, Node] = {}  # handle -> placeholder

    def region(self, lane: Lane, log: list[Any]) -> Any:
        """Return the region in which the operators of a lane are noted."""
        return _Log(log, _known(lane), self.decompositions)

    def take(self, value: Any, node: Node) -> None:
        """Note an input of the graph."""
        if isinstance(value, SymbolicFakeTensor):
            self._inputs[value._handle] = node
            tensors = [lane.tensors[value._handle] for lane in self.program.lanes]
            self.tracer.geometries[id(tensors[0])] = (value._sizes, value._strides, value._offset)
            self._assign(tensors, node)
        elif isinstance(value, SYMBOLIC):
            self.tracer.numbers.note(value, node)

    # --- before the call is described --------------------------------------------------------------

    def planned(self, call: Call) -> list[Any]:
        """Return (overload, args, kwargs, results, number) of each operator, with expressions for numbers."""
        logs = [call.outcomes[lane].log for lane in self.program.lanes]
        plan = []
        for i, (func, *_) in enumerate(logs[0]):
            parts = [log[i] for log in logs]

            def read(place: int, i: int = i) -> Callable[[Outcome], Any]:
                return lambda o: o.log[i][place]

            args = self._merged(call, [p[1] for p in parts], read(1))
            kwargs = self._merged(call, [p[2] for p in parts], read(2))
            results = [p[3] for p in parts]
            plan.append((func, args, kwargs, results, self._numbers(call, results, read(3))))
        return plan

    def _numbers(self, call: Call, results: list[Any], extract: Callable[[Outcome], Any]) -> Any:
        """Fit the geometry of the tensors of a result; return the expression of a number."""
        first = results[0]
        if isinstance(first, Tensor):
            self.tracer.geometries[id(first)] = self.program.columns.geometry(call, results, extract)
        elif isinstance(first, list | tuple):
            for j in range(len(first)):
                self._numbers(call, [r[j] for r in results], part(extract, j))
        elif type(first) in (int, float):
            return self.program.columns.expression(call, results, extract)
        return None

    def _merged(self, call: Call, values: list[Any], extract: Callable[[Outcome], Any]) -> Any:
        """Return one argument for the arguments of all lanes."""
        first = values[0]
        kind = type(first)
        if isinstance(first, Tensor):
            number = self._number_as_tensor(call, values, extract)
            return _Tensors(values) if number is None else number
        if kind is int or kind is float:
            found = self.program.columns.expression(call, values, extract)
            return found if type(found) in (int, float) else _Expression(found)
        if isinstance(first, list | tuple):
            return [self._merged(call, [v[j] for v in values], part(extract, j)) for j in range(len(first))]
        if kind is dict:
            return {k: self._merged(call, [v[k] for v in values], part(extract, k)) for k in first}
        return first

    def _number_as_tensor(self, call: Call, tensors: list[Any], extract: Callable[[Outcome], Any]) -> Any:
        """Return the number from which the program made a tensor, if it depends on sizes; else None."""
        first = tensors[0]
        constants = self._constants(tensors)
        if self.tracer.is_known(first) or any(c is None or c.dim() or c.is_complex() for c in constants):
            return None
        with _plain():
            numbers = [c.item() for c in constants]
            if all(n == numbers[0] for n in numbers) or first.dtype == flambeau.bool:
                return None

        def read(outcome: Outcome) -> Any:
            with _plain():
                return _constant_of(extract(outcome)).item()

        return _NumberAsTensor(self.program.columns.expression(call, numbers, read), tensors)

    # --- nodes ------------------------------------------------------------------------------------

    def emit(self, call: Call, plan: list[Any]) -> None:
        """Add the nodes of a call."""
        tracer = self.tracer
        call.nodes = []
        for func, args, kwargs, results, number in plan:
            taken, named = self._arg(call, args), self._arg(call, kwargs)
            if not _has_tensor(results[0]) and results[0] is not None and number is None:
                call.nodes.append(None)
                continue
            name = func.overloadpacket.__name__
            node = tracer.create_node("call_function", func, tuple(taken), named, name)
            call.nodes.append(node)
            if _has_tensor(results[0]):
                self._assign(results, node)
            elif number is not None and type(number) not in (int, float):
                tracer.numbers.note_expr(number, node)

    def _arg(self, call: Call, value: Any) -> Any:
        if isinstance(value, _Tensors):
            return self._node_of(call, value.of_lanes)
        if isinstance(value, _NumberAsTensor):
            first, number = value.of_lanes[0], self.tracer.numbers.node_of(value.expr)
            traits = {"dtype": first.dtype, "device": first.device}
            self._assign(
                value.of_lanes,
                self.tracer.create_node("call_function", _FULL, ([], number), traits, "full"),
            )
            return self._node_of(call, value.of_lanes)
        if isinstance(value, _Expression):
            return self.tracer.numbers.node_of(value.expr)
        if isinstance(value, list):
            return [self._arg(call, item) for item in value]
        if isinstance(value, dict):
            return {name: self._arg(call, item) for name, item in value.items()}
        return self.tracer.create_arg(value)

    def _node_of(self, call: Call, tensors: list[Any]) -> Node:
        node = self.tracer.node_of(tensors[0])
        for lane, tensor in zip(self.program.lanes[1:], tensors[1:], strict=True):
            known = _known(lane)
            found = known.node_of(tensor)
            if found is None and self._is_constant(lane, tensors[0], tensor):
                known.remember(tensor, node)
            elif found is not node:
                raise RuntimeError(
                    f"{call.name}: expected operators that do not depend on sizes, got other tensors for "
                    f"{lane.values}"
                )
        return node

    def _constants(self, tensors: list[Any]) -> list[Any]:
        lanes = self.program.lanes
        return [_known(lane).constant_of(t) for lane, t in zip(lanes, tensors, strict=True)]

    def _is_constant(self, lane: Lane, first: Any, other: Any) -> bool:
        """Return whether tensors that no node computes are equal."""
        constants = [_known(self.program.lanes[0]).constant_of(first), _known(lane).constant_of(other)]
        if first is other or constants[0] is None or constants[1] is None:
            return first is other
        with _plain():
            return constants[0].shape == constants[1].shape and bool((constants[0] == constants[1]).all())

    def _assign(self, results: list[Any], node: Node) -> None:
        self.tracer.assign(results[0], node)
        for lane, result in zip(self.program.lanes[1:], results[1:], strict=True):
            self._remember(lane, result, node)

    def _remember(self, lane: Lane, result: Any, node: Node) -> None:
        if isinstance(result, Tensor):
            _known(lane).remember(result, node)
        elif isinstance(result, list | tuple):
            parts = {user.args[1]: user for user in node.users if user.target is operator.getitem}
            for j, item in enumerate(result):
                if j in parts:
                    self._remember(lane, item, parts[j])

    def bind(self, lane: Lane, call: Call, outcome: Outcome) -> None:
        """Give the tensors that a call has made in a further lane their nodes."""
        for handle, _ in call.outputs:
            if handle in self._inputs and handle in lane.tensors:
                _known(lane).remember(lane.tensors[handle], self._inputs[handle])
        for entry, node in zip(outcome.log, call.nodes or (), strict=False):
            if node is not None:
                self._remember(lane, entry[3], node)


class _Tensors:
    """A tensor argument.

    Args:
        of_lanes: the tensor of each lane.
    """

    def __init__(self, of_lanes: list[Any]) -> None:
        self.of_lanes = of_lanes


class _Expression:
    """A number that depends on sizes.

    Args:
        expr: its expression.
    """

    def __init__(self, expr: Any) -> None:
        self.expr = expr


class _NumberAsTensor(_Expression):
    """A tensor of one number that depends on sizes.

    Args:
        expr: the expression of the number.
        of_lanes: the tensor of each lane.
    """

    def __init__(self, expr: Any, of_lanes: list[Any]) -> None:
        super().__init__(expr)
        self.of_lanes = of_lanes


def _constant_of(tensor: Any) -> Any:
    """Return the elements of a tensor that Python's data made; None for others."""
    if isinstance(tensor, FakeTensor):
        return tensor.constant
    return tensor if tensor.dim() == 0 and tensor.is_cpu else None


@contextmanager
def _plain() -> Iterator[None]:
    """A region in which operators run on real tensors."""
    with flambeau._C.DisableTorchFunction(), _disable_current_modes():
        yield


def _known(lane: Lane) -> _Known:
    if lane.known is None:
        lane.known = _Known()
    known: _Known = lane.known
    return known


def _has_tensor(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_tensor, value))
    return isinstance(value, Tensor)
