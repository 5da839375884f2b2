"""Recorded segments as Python functions: check the guards, run the graph, rebuild the state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau.compiler.capture.frames import Frame
from flambeau.compiler.capture.guards import (
    Check,
    Guard,
    condition,
    describe_tensor,
    nth,
    same_value,
    thread_state,
)
from flambeau.compiler.capture.machine import Machine, Outcome
from flambeau.compiler.capture.origins import Origin
from flambeau.compiler.capture.rebuild import Rebuilder
from flambeau.compiler.capture.tracker import Tracker
from flambeau.fx.graph_module import GraphModule

Backend = Callable[[Any, list[Any]], Callable[..., Any]]
MISS = object()
_ERRORS = "(AttributeError, LookupError, TypeError, ValueError)"


@dataclass
class Segment:
    """A recorded stretch of a program.

    `run` takes the frames and returns `MISS`, or the outcome and its value: the result of the outermost
    function, or the frames at the instruction that follows.
    """

    run: Callable[[list[Frame]], Any]
    source: str
    guards: list[Guard]
    constants: list[Any]
    graph: GraphModule | None
    reason: str  # why it ended; "" if its function returned
    where: str = ""

    def explain_miss(self, frames: list[Frame]) -> tuple[str, Guard | None]:
        """Return the first condition that the frames do not fulfil."""
        if thread_state() != self.constants[0]:
            return "the state of the thread (gradients, autocast, defaults) differs", None
        for guard in self.guards:
            names: dict[str, Any] = {"F": frames, "K": self.constants, "same_value": same_value, "nth": nth}
            other = _expression(guard.expected) if isinstance(guard.expected, Origin) else ""
            text = condition(guard, _expression(guard.origin), other)
            try:
                fulfilled = eval(text, names)
            except Exception as error:
                return f"{guard.origin.name()}: {error}", guard
            if not fulfilled:
                return self._difference(guard, names), guard
        return "no guard failed", None

    def _difference(self, guard: Guard, names: dict[str, Any]) -> str:
        value = eval(_expression(guard.origin), names)
        if guard.check is Check.TENSOR and isinstance(value, flambeau.Tensor):
            about = self.constants[guard.expected].description
            return f"{guard.origin.name()}: expected {about}, got {describe_tensor(value)}"
        if guard.check in (Check.EQUALS, Check.KEYS):
            return f"{guard.origin.name()}: expected {self.constants[guard.expected]!r}, got {value!r}"
        return f"{guard.origin.name()}: the {guard.check.value} differs"


def _expression(origin: Origin) -> str:
    parent = origin.parent
    return origin.text(_expression(parent) if parent else "")


class _Writer:
    """Writes the function of a segment."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self.lines: list[str] = []
        self._variables: dict[Origin, str] = {}

    def read(self, origin: Origin) -> str:
        """Return the variable that holds the value at an origin."""
        name = self._variables.get(origin)
        if name is None:
            parent = origin.parent
            text = origin.text(self.read(parent) if parent else "")
            name = self._variables[origin] = f"s{len(self._variables)}"
            self.lines.append(f"{name} = {text}")
        return name

    def check(self, guard: Guard) -> None:
        """Add a guard."""
        value = self.read(guard.origin)
        other = self.read(guard.expected) if isinstance(guard.expected, Origin) else ""
        self.lines.append(f"if not ({condition(guard, value, other)}): return MISS")


def build(machine: Machine, outcome: Outcome, backend: Backend, where: str) -> Segment:
    """Return the segment that a machine has recorded; `NotRebuilt` if its end cannot be rebuilt."""
    tracker, recorder = machine.tracker, machine.recorder
    _forget_tensors(tracker)
    writer = _Writer(tracker)
    for guard in tracker.guards:
        writer.check(guard)
    inputs = [writer.read(origin) for origin, _ in recorder.inputs]
    for i, name in enumerate(inputs):  # the graph may write to one input that is another one's memory
        writer.lines += [f"if {name} is {other}: return MISS" for other in inputs[:i]]
    rebuilder = Rebuilder(tracker, recorder, writer.read)
    ending = _ending(machine, outcome, rebuilder)
    effects = rebuilder.effects()
    recorder.finish(rebuilder.outputs)
    graph, compiled = None, None
    call = [f"out = ({', '.join(inputs)},)"] if rebuilder.outputs else []
    if not recorder.is_empty():
        graph = GraphModule({}, recorder.graph, "CapturedGraph")
        compiled = backend(graph, [example for _, example in recorder.inputs])
        call = [f"out = graph({', '.join(inputs)})"]
    source = _source(writer.lines, [*call, *rebuilder.lines, *rebuilder.late, *effects, ending])
    run = _function(source, tracker.constants, compiled, where)
    reason = machine.reason if outcome is Outcome.BROKE else ""
    return Segment(run, source, list(tracker.guards), tracker.constants, graph, reason, where)


def _source(checks: list[str], body: list[str]) -> str:
    lines = [
        "if thread_state() != K[0]: return MISS",
        "try:",
        *(f"    {line}" for line in [*checks, "pass"]),
        f"except {_ERRORS}: return MISS",
        *body,
    ]
    return "def segment(F):\n" + "".join(f"    {line}\n" for line in lines)


def _function(source: str, constants: list[Any], graph: Any, where: str) -> Callable[[list[Frame]], Any]:
    names: dict[str, Any] = {
        "K": constants, "graph": graph, "MISS": MISS, "same_value": same_value, "nth": nth,
        "thread_state": thread_state, "FINISHED": Outcome.FINISHED, "BROKE": Outcome.BROKE,
    }  # fmt: skip
    exec(compile(source, f"<segment of {where}>", "exec"), names)
    run: Callable[[list[Frame]], Any] = names["segment"]
    return run


def _forget_tensors(tracker: Tracker) -> None:
    """Guards describe tensors; they must not keep them."""
    for value in tracker.constants:
        about = getattr(value, "about", None) if callable(value) else None
        if isinstance(about, flambeau.Tensor):
            value.description = describe_tensor(about)
            del value.about


def _ending(machine: Machine, outcome: Outcome, rebuilder: Rebuilder) -> str:
    if outcome is Outcome.FINISHED:
        return f"return FINISHED, {rebuilder.value(machine.result)}"
    frames = [rebuilder.frame(frame, machine.lazy) for frame in machine.frames]
    return f"return BROKE, [{', '.join(frames)}]"
