"""Functions without effects that become graphs inside a graph, and `cond` on a tensor as one node.

Both branches run while they are recorded, although the program runs only one. Therefore a branch may have no
effect beyond its results: a write to a tensor or object from outside the branch, or a call that capture does
not interpret, ends the graph instead, and the program's own `cond` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau._operators.control_flow import cond
from flambeau.compiler.aot.state import ThreadState, kept_state
from flambeau.compiler.capture import calls, polyfills
from flambeau.compiler.capture.base import Break
from flambeau.compiler.capture.decode import Instruction
from flambeau.compiler.capture.frames import Frame, Generator
from flambeau.compiler.capture.machine import Machine, Outcome
from flambeau.compiler.capture.recording import Recorder
from flambeau.compiler.capture.state_calls import module_of
from flambeau.compiler.symbolic.numbers import is_tracked, plain
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils._pytree import TreeSpec, tree_flatten, tree_leaves

_WRITES = ("STORE_GLOBAL", "STORE_DEREF", "DELETE_ATTR", "DELETE_GLOBAL", "DELETE_DEREF")
_COND: Any = cond
_BUILDS = ("BUILD_LIST", "BUILD_MAP", "BUILD_SET", "BUILD_CONST_KEY_MAP")
_MARKS = ("_torchdynamo_in_graph", "_torchdynamo_constant")


class WithoutWrites(TorchDispatchMode):
    """The region in which operators write only to tensors that were made in it."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self._made: dict[int, Any] = {}  # keeps storages alive, so that their ids stay unique

    def has_made(self, tensor: flambeau.Tensor) -> bool:
        """Whether the memory of a tensor was allocated in the region."""
        return id(_storage(tensor)) in self._made

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator; `Break` if it writes to a tensor from outside the region."""
        kwargs = kwargs or {}
        given = [_storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, flambeau.Tensor)]
        facts = flambeau._C._operator_facts(func._entry)
        is_writing = func._schema.is_mutable or (facts is not None and facts[2])
        if is_writing and not all(id(storage) in self._made for storage in given):
            raise Break(f"{self._what} that writes to a tensor ({func})")
        result = func(*args, **kwargs)
        old = {id(storage) for storage in given}
        for leaf in tree_leaves(result):
            storage = _storage(leaf) if isinstance(leaf, flambeau.Tensor) else None
            if storage is not None and id(storage) not in old:
                self._made[id(storage)] = storage
        return result


def _storage(tensor: flambeau.Tensor) -> Any:
    return tensor.untyped_storage() if tensor.layout is flambeau.strided else tensor


class BranchRecorder(Recorder):
    """Records a function; tensors from outside become operands.

    Args:
        outer: the recorder of the enclosing graph.
    """

    def __init__(self, outer: Recorder) -> None:
        super().__init__(outer.tracker)
        self.outer = outer
        self.operands: dict[Node, Node] = {}  # of the outer graph -> of this graph
        self.given: dict[Node, Any] = {}  # the tensors of operands, by nodes of the outer graph
        self.parameters: list[Node] = []

    def add_parameter(self, tensor: flambeau.Tensor, is_unsteady: bool) -> None:
        """Add a parameter of the function.

        Args:
            tensor: represents the values of the parameter.
            is_unsteady: whether the values may differ from the tensor in strides or gradient state.
        """
        node = self.graph.placeholder(f"arg_{len(self.parameters)}")
        self.parameters.append(node)
        self._remember(tensor, node)
        if is_unsteady:
            self.unsteady.add(node)

    def node_of(self, tensor: flambeau.Tensor) -> Node | None:
        """Return the node of a tensor, an operand if it is known outside; None if it is unknown."""
        found = self._nodes.get(id(tensor))
        if found is not None:
            return found[0]
        outside = self.outer.node_of(tensor)
        if outside is None:
            return None
        if outside in self.outer.sized:
            self.outer.fix_sizes()
        if outside not in self.operands:
            self.operands[outside] = self.graph.placeholder(outside.name)
            self.given[outside] = tensor
            if outside in self.outer.unsteady:
                self.unsteady.add(self.operands[outside])
        return self.operands[outside]

    def argument(self, value: Any) -> Any:
        """Return a value as an argument of a node; numbers of outer nodes become constants."""
        return super().argument(plain(value) if is_tracked(value) else value)


class Branch(Machine):
    """An interpreter of a function; an effect in the function ends the enclosing graph.

    Args:
        outer: the interpreter of the enclosing graph.
        what: a description of the function, for messages.
    """

    def __init__(self, outer: Any, what: str) -> None:
        super().__init__([], set(), outer.changing)
        self.what = what
        self.tracker = outer.tracker
        self.recorder = self.branch = BranchRecorder(outer.recorder)
        self._iterators: dict[int, Any] = {}
        self.made: dict[int, Any] = {}  # containers and objects that the function made and may change

    def _step(self, frame: Frame) -> None:
        i: Instruction = frame.decoded.instructions[frame.ip]
        is_own_cell = i.name == "STORE_DEREF" and frame.decoded.slots[i.arg] in frame.code.co_cellvars
        if i.name in _WRITES and not is_own_cell:
            raise Break(f"{self.what} that sets variables or attributes ({i.name})")
        if is_own_cell:
            self.made[id(frame.slots[i.arg])] = frame.slots[i.arg]
        super()._step(frame)
        if i.name in _BUILDS:
            self.made[id(frame.stack[-1])] = frame.stack[-1]

    def spoil(self, reason: str) -> None:
        """End the graph."""
        raise Break(f"{self.what} that has {reason}")

    def require_known(self, tensor: flambeau.Tensor, name: str = "") -> None:
        """End the graph if the function reads a property that a parameter does not share with its values."""
        super().require_known(tensor, name)
        if name == "is_leaf" and self.branch.node_of(tensor) in self.branch.parameters:
            raise Break(f"{self.what} that asks whether its argument is a leaf")

    def store_attribute(self, value: Any, name: str, new: Any) -> None:
        """Set an attribute of an object that the function made; end the graph for other objects."""
        if id(value) not in self.made:
            raise Break(f"{self.what} that sets the attribute {name}")
        super().store_attribute(value, name, new)

    def _make_instance(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        depth = len(self.frames)
        super()._make_instance(kind, args, kwargs)
        if len(self.frames) > depth and self.frame.result is not None:
            self.made[id(self.frame.result)] = self.frame.result

    def _call_python(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if function is calls._APPLY or any(mark in function.__dict__ for mark in _MARKS):
            raise Break(f"{self.what} that calls {function.__qualname__}")
        super()._call_python(function, args, kwargs)

    # --- iterators: a recorded step must not advance iterators from outside ---------------------------

    def call_pure(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], is_checked: bool = False
    ) -> None:
        """Call a function without effects; note the iterators that it makes as the branch's own."""
        if function is next:
            raise Break(f"{self.what} that calls next")
        depth = len(self.frames)
        super().call_pure(function, args, kwargs, is_checked)
        if len(self.frames) == depth and self.frame.stack:
            if function is object.__new__:
                self.made[id(self.frame.stack[-1])] = self.frame.stack[-1]
            self._iterators[id(self.frame.stack[-1])] = self.frame.stack[-1]

    def _start_generator(self, frame: Frame) -> None:
        super()._start_generator(frame)
        self._iterators[id(self.frame.stack[-1])] = self.frame.stack[-1]

    def resume_frame(self, generator: Generator, value: Any) -> None:
        """Continue a generator of the branch."""
        if id(generator) not in self._iterators:
            raise Break(f"{self.what} that continues a generator from outside")
        super().resume_frame(generator, value)

    def iterate(self, value: Any) -> bool:
        """Push an iterator over a value; `Break` if the value is an iterator from outside."""
        if hasattr(value, "__next__") and id(value) not in self._iterators:
            raise Break(f"{self.what} that continues an iterator from outside")
        return super().iterate(value)


@dataclass
class _Recorded:
    """A branch: its result and its graph."""

    result: Any
    leaves: list[Any]
    structure: TreeSpec
    recorder: BranchRecorder

    def facts(self) -> list[Any]:
        """The properties of the results that the rest of the program may rely on."""
        return [
            (type(t), t.dtype, t.device, t.size(), t.layout, t.requires_grad, t.is_leaf, _strides(t))
            for t in self.leaves
        ]

    def module(self, operands: list[Node], name: str) -> GraphModule:
        """Return the graph as a function of operands, which are nodes of the outer graph."""
        graph, copies = Graph(), {}
        for outside in operands:
            made = graph.placeholder(outside.name)
            if outside in self.recorder.operands:
                copies[self.recorder.operands[outside]] = made
        for node in self.recorder.graph.nodes:
            if node.op != "placeholder":
                copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple(copies[self.recorder._nodes[id(leaf)][0]] for leaf in self.leaves))
        return module_of(self.recorder.attributes, graph, name)


def _strides(tensor: flambeau.Tensor) -> Any:
    return tensor.stride() if tensor.layout is flambeau.strided else None


@contextmanager
def frozen(tracker: Any, made: dict[int, Any], what: str) -> Iterator[None]:
    """A region in which only objects that were made in it may change."""
    before = {name: tracker.__dict__.get(name) for name in ("mutate", "write")}

    def refuse(owner: Any, *_: Any) -> None:
        if id(owner) not in made:
            raise Break(f"{what} that changes a {type(owner).__name__}")

    tracker.mutate = tracker.write = refuse
    try:
        yield
    finally:
        for name, value in before.items():  # restores the records of an enclosing branch
            if value is None:
                del tracker.__dict__[name]
            else:
                tracker.__dict__[name] = value


def run(machine: Branch, function: Any, operands: tuple[Any, ...]) -> WithoutWrites:
    """Run a function, record it, and return the region in which it ran; `Break` if that is not possible.

    Args:
        machine: the interpreter of the function, which holds the result and the record.
        function: the function.
        operands: its arguments.
    """
    what, region, state = machine.what, WithoutWrites(machine.what), ThreadState.now()
    try:
        with kept_state(), frozen(machine.tracker, machine.made, what), region:
            machine.enter(polyfills.called, (function, operands), {})
            outcome = machine.record()
            if ThreadState.now() != state:
                raise Break(f"{what} that changes the state of the thread")
    except Break:
        raise
    except Exception as error:
        raise Break(f"{what} that raises {type(error).__name__}") from None
    if outcome is not Outcome.FINISHED:
        raise Break(
            machine.reason if machine.reason.startswith(what) else f"{what} that has {machine.reason}"
        )
    return region


def _record(outer: Any, function: Any, operands: tuple[Any, ...]) -> _Recorded:
    machine = Branch(outer, "cond with a branch")
    run(machine, function, operands)
    leaves, structure = tree_flatten(machine.result)
    recorder = machine.branch
    own = {node for node in recorder.graph.nodes if node.op != "placeholder"}
    nodes = [recorder._nodes.get(id(leaf), (None,))[0] for leaf in leaves]
    if not leaves or not all(node in own for node in nodes) or len({*map(id, leaves)}) < len(leaves):
        raise Break("cond with a branch that returns values other than new tensors")
    outer.tracker.keep(machine.result)
    return _Recorded(machine.result, leaves, structure, recorder)


def record_cond(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Record a call of `cond`: one branch for a Python value, a node with both for a tensor.

    Args:
        machine: the interpreter; the result is pushed.
        args, kwargs: the arguments of `cond`.
    """
    try:
        pred, true_fn, false_fn, operands = calls.bind(_COND, args, kwargs)
    except TypeError:
        raise Break("cond with wrong arguments") from None
    if not (callable(true_fn) and callable(false_fn)) or type(operands) not in (tuple, list):
        raise Break("cond with wrong arguments")
    machine.tracker.expand(operands)
    if type(pred) in (bool, int, float):
        machine.call(true_fn if pred else false_fn, tuple(operands), {})
        return
    if not isinstance(pred, flambeau.Tensor) or pred.numel() != 1 or machine.recorder.node_of(pred) is None:
        raise Break("cond with a condition that is not a tensor of one element")
    machine.recorder.fix_sizes()
    _record_both(machine, pred, (true_fn, false_fn), tuple(operands))


def _record_both(
    machine: Any, pred: Any, functions: tuple[Callable[..., Any], Callable[..., Any]], operands: Any
) -> None:
    taken = 0 if bool(pred) else 1
    state = flambeau.get_rng_state()
    try:
        other = _record(machine, functions[1 - taken], operands)
        flambeau.set_rng_state(state)
        chosen = _record(machine, functions[taken], operands)
        if other.structure != chosen.structure or other.facts() != chosen.facts():
            raise Break(
                "cond with branches that return different structures, shapes, strides, dtypes or "
                "gradient states"
            )
    except BaseException:
        flambeau.set_rng_state(state)
        raise
    recorder = machine.recorder
    outside = list(dict.fromkeys([*chosen.recorder.operands, *other.recorder.operands]))
    both = (chosen, other) if taken == 0 else (other, chosen)
    subgraphs = []
    for name, branch in zip(("true", "false"), both, strict=True):
        key = f"cond_{name}_{len(recorder.attributes) // 2}"
        subgraphs.append((key, branch.module(outside, key)))
    nodes = []
    for key, module in subgraphs:
        recorder.attributes[key] = module
        nodes.append(recorder.graph.get_attr(key))
    given = (recorder.node_of(pred), *nodes, tuple(outside))
    recorder.record("call_function", cond, given, {}, tuple(chosen.leaves), machine.where())
    machine.push(chosen.result)
