"""`cond` on a tensor as one node: both branches are recorded as graphs, without effects.

Both branches run while they are recorded, one of them in vain. So nothing in them may have an effect beyond
its results: a write to a tensor or object that existed before, or anything that capture does not look into,
ends the graph instead, and the program's own `cond` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau._operators.control_flow import cond
from flambeau.compiler.capture import calls, polyfills
from flambeau.compiler.capture.base import Break
from flambeau.compiler.capture.decode import Instruction
from flambeau.compiler.capture.frames import Frame, Generator
from flambeau.compiler.capture.machine import Machine, Outcome
from flambeau.compiler.capture.recording import Recorder, Unrecordable
from flambeau.compiler.symbolic.numbers import is_tracked
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils._pytree import TreeSpec, tree_flatten, tree_leaves

_WRITES = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF", "DELETE_ATTR", "DELETE_GLOBAL", "DELETE_DEREF")
_COND: Any = cond
_BUILDS = ("BUILD_LIST", "BUILD_MAP", "BUILD_SET", "BUILD_CONST_KEY_MAP")
_MARKS = ("_torchdynamo_in_graph", "_torchdynamo_constant")


class _WithoutWrites(TorchDispatchMode):
    """The region in which operators write only to tensors that were made in it."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, Any] = {}  # storages; held, so that an id stays one storage's

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator, unless it writes to what existed before."""
        kwargs = kwargs or {}
        given = [_storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, flambeau.Tensor)]
        facts = flambeau._C._operator_facts(func._entry)
        is_writing = func._schema.is_mutable or (facts is not None and facts[2])
        if is_writing and not all(id(storage) in self._made for storage in given):
            raise Break(f"cond with a branch that writes to a tensor ({func})")
        result = func(*args, **kwargs)
        old = {id(storage) for storage in given}
        for leaf in tree_leaves(result):
            storage = _storage(leaf) if isinstance(leaf, flambeau.Tensor) else None
            if storage is not None and id(storage) not in old:
                self._made[id(storage)] = storage
        return result


def _storage(tensor: flambeau.Tensor) -> Any:
    return tensor.untyped_storage() if tensor.layout is flambeau.strided else tensor


class _BranchRecorder(Recorder):
    """Records a branch; tensors from outside become operands."""

    def __init__(self, outer: Recorder) -> None:
        super().__init__(outer.tracker)
        self.outer = outer
        self.operands: dict[Node, Node] = {}  # of the outer graph -> of this graph

    def node_of(self, tensor: flambeau.Tensor) -> Node | None:
        """Return the node of a tensor, an operand if it is known outside; None if it is unknown."""
        found = self._nodes.get(id(tensor))
        if found is not None:
            return found[0]
        outside = self.outer.node_of(tensor)
        if outside is None:
            return None
        if outside in self.outer.sized:
            raise Break("cond with tensors whose sizes may differ from call to call")
        if outside not in self.operands:
            self.operands[outside] = self.graph.placeholder(outside.name)
        return self.operands[outside]

    def argument(self, value: Any) -> Any:
        """Return a value as an argument of a node; numbers that outer nodes compute are none."""
        if is_tracked(value):
            raise Unrecordable("a number that may differ from call to call")
        return super().argument(value)


class _Branch(Machine):
    """An interpreter of a branch; whatever has an effect ends the graph around it."""

    def __init__(self, outer: Any) -> None:
        super().__init__([], set(), outer.changing)
        self.tracker = outer.tracker
        self.recorder = self.branch = _BranchRecorder(outer.recorder)
        self._iterators: dict[int, Any] = {}
        self.made: dict[int, Any] = {}  # containers of the branch, which may change

    def _step(self, frame: Frame) -> None:
        i: Instruction = frame.decoded.instructions[frame.ip]
        if i.name in _WRITES:
            raise Break(f"cond with a branch that sets variables or attributes ({i.name})")
        super()._step(frame)
        if i.name in _BUILDS:
            self.made[id(frame.stack[-1])] = frame.stack[-1]

    def spoil(self, reason: str) -> None:
        """End the graph."""
        raise Break(f"cond with a branch that has {reason}")

    def store_attribute(self, value: Any, name: str, new: Any) -> None:
        """End the graph."""
        raise Break(f"cond with a branch that sets the attribute {name}")

    def call_own(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call a function of the package that does not change the state of the thread."""
        if getattr(function, "__name__", "") in calls.known.STATE:
            raise Break(f"cond with a branch that calls {function.__name__}")
        super().call_own(function, args, kwargs)

    def _call_python(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if function is calls._APPLY or any(mark in function.__dict__ for mark in _MARKS):
            raise Break(f"cond with a branch that calls {function.__qualname__}")
        super()._call_python(function, args, kwargs)

    # --- iterators: those that existed before would move on -------------------------------------------

    def call_pure(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], is_checked: bool = False
    ) -> None:
        """Call a function without effects; iterators that it makes are the branch's own."""
        if function is next:
            raise Break("cond with a branch that calls next")
        depth = len(self.frames)
        super().call_pure(function, args, kwargs, is_checked)
        if len(self.frames) == depth and self.frame.stack:
            self._iterators[id(self.frame.stack[-1])] = self.frame.stack[-1]

    def _start_generator(self, frame: Frame) -> None:
        super()._start_generator(frame)
        self._iterators[id(self.frame.stack[-1])] = self.frame.stack[-1]

    def resume_frame(self, generator: Generator, value: Any) -> None:
        """Continue a generator of the branch."""
        if id(generator) not in self._iterators:
            raise Break("cond with a branch that continues a generator from outside")
        super().resume_frame(generator, value)

    def iterate(self, value: Any) -> bool:
        """Push an iterator over a value that is none from outside."""
        if hasattr(value, "__next__") and id(value) not in self._iterators:
            raise Break("cond with a branch that continues an iterator from outside")
        return super().iterate(value)


@dataclass
class _Recorded:
    """A branch: its result and its graph."""

    result: Any
    leaves: list[Any]
    structure: TreeSpec
    recorder: _BranchRecorder

    def facts(self) -> list[Any]:
        """What the rest of the program may know of the results."""
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
        return GraphModule(self.recorder.attributes, graph, name)


def _strides(tensor: flambeau.Tensor) -> Any:
    return tensor.stride() if tensor.layout is flambeau.strided else None


@contextmanager
def _frozen(tracker: Any, made: dict[int, Any]) -> Iterator[None]:
    """A region in which only objects that were made in it may change."""
    before = {name: tracker.__dict__.get(name) for name in ("mutate", "write")}

    def refuse(owner: Any, *_: Any) -> None:
        if id(owner) not in made:
            raise Break(f"cond with a branch that changes a {type(owner).__name__}")

    tracker.mutate = tracker.write = refuse
    try:
        yield
    finally:
        for name, value in before.items():  # of the branch around this one
            if value is None:
                del tracker.__dict__[name]
            else:
                tracker.__dict__[name] = value


def _record(outer: Any, function: Any, operands: tuple[Any, ...]) -> _Recorded:
    machine = _Branch(outer)
    try:
        with _frozen(machine.tracker, machine.made), _WithoutWrites():
            machine.enter(polyfills.called, (function, operands), {})
            outcome = machine.record()
    except Break:
        raise
    except Exception as error:
        raise Break(f"cond with a branch that raises {type(error).__name__}") from None
    if outcome is not Outcome.FINISHED:
        prefix = "" if machine.reason.startswith("cond with") else "cond with a branch that has "
        raise Break(prefix + machine.reason)
    leaves, structure = tree_flatten(machine.result)
    recorder = machine.branch
    own = {node for node in recorder.graph.nodes if node.op != "placeholder"}
    nodes = [recorder._nodes.get(id(leaf), (None,))[0] for leaf in leaves]
    if not leaves or not all(node in own for node in nodes) or len({*map(id, leaves)}) < len(leaves):
        raise Break("cond with a branch that returns something else than new tensors")
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
        raise Break("cond with a condition that is no tensor of one element")
    if machine.recorder.node_of(pred) in machine.recorder.sized:
        raise Break("cond with tensors whose sizes may differ from call to call")
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
