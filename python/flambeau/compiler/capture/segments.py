"""Recorded segments as Python functions that check the guards, run the graph and rebuild the state."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau.compiler.aot.state import ThreadState
from flambeau.compiler.capture.frames import Frame
from flambeau.compiler.capture.guards import (
    Check,
    Guard,
    condition,
    describe_tensor,
    nth,
    same_value,
)
from flambeau.compiler.capture.machine import Machine, Outcome
from flambeau.compiler.capture.origins import Origin
from flambeau.compiler.capture.rebuild import Rebuilder
from flambeau.compiler.capture.state_calls import changes_state, restored
from flambeau.compiler.capture.steps import NotAtEntry, Steps
from flambeau.compiler.symbolic.variants import Variants, without_idle_numbers
from flambeau.fx.graph_module import GraphModule

Backend = Callable[[Any, list[Any]], Callable[..., Any]]
MISS = object()


@dataclass
class Segment:
    """A recorded stretch of a program.

    The function `run` takes the frames. It returns `MISS`, or the outcome and its value: the result of the
    outermost function, or the frames at the next instruction. `run_at_entry` takes the variables of the
    function instead of frames; it is None if the segment does not begin at the start of its function.
    """

    run: Callable[[list[Frame]], Any]
    source: str
    guards: list[Guard]
    constants: list[Any]
    graph: GraphModule | None
    reason: str  # why it ended; "" if its function returned
    where: str = ""
    run_at_entry: Callable[[list[Any]], Any] | None = None
    variants: Variants | None = None  # for a graph with inputs whose sizes may differ

    def __post_init__(self) -> None:
        if self.run_at_entry is not None:
            run = self.run_at_entry
            self.run = lambda frames: run(frames[0].slots)

    def explain_miss(self, frames: list[Frame]) -> tuple[str, Guard | None]:
        """Describe the first condition that the frames do not satisfy, and return its guard."""
        if not self.constants[0]():
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
        return "a condition on sizes has another result", None

    def origins_of_other_sizes(self, frames: list[Frame]) -> list[Origin]:
        """Return the origins of the tensors that differ from the record in sizes and strides only."""
        names: dict[str, Any] = {"F": frames, "K": self.constants, "same_value": same_value, "nth": nth}
        found = []
        for guard in self.guards:
            check: Any = self.constants[guard.expected] if guard.check is Check.TENSOR else None
            if type(check) is not flambeau._C._TensorGuard:
                continue
            try:
                value = eval(_expression(guard.origin), names)
            except Exception:
                continue
            if not check(value) and check.matches_at_any_size(value):
                found.append(guard.origin)
        return found

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


def build(
    machine: Machine,
    outcome: Outcome,
    backend: Backend,
    where: str,
    function: types.FunctionType | None,
    is_per_size: bool = False,
) -> Segment:
    """Return the segment that a machine has recorded; `NotRebuilt` if its end cannot be rebuilt.

    Args:
        machine: holds the record.
        outcome: how the run ended.
        backend: compiles the graph.
        where: the segment's first position.
        function: the function, if the segment begins at its start; otherwise None.
        is_per_size: whether the backend compiles a graph for each size.
    """
    parts = None
    if function is not None:
        with contextlib.suppress(NotAtEntry):
            parts = _written(machine, outcome, Steps(machine.tracker.constants, is_entry=True))
    if parts is None:
        function = None
        parts = _written(machine, outcome, Steps(machine.tracker.constants, is_entry=False))
    steps, rebuilder, ending = parts
    tracker, recorder = machine.tracker, machine.recorder
    recorder.finish(rebuilder.outputs)
    inputs = steps.arguments([origin for origin, _ in recorder.inputs])
    graph, compiled, variants = None, None, None
    call = [f"out = ({inputs},)"] if rebuilder.outputs else []
    if not recorder.is_empty():
        graph, compiled, variants = _compiled(machine, backend, is_per_size)
        call = [f"out = graph({inputs})"]
    if variants is not None:
        call = [f"run = graph({inputs})", "if run is None: return MISS", f"out = run({inputs})"]
    if changes_state(recorder.graph):
        call[-1] = f"try: {call[-1]}\n    except BaseException: restore(); raise"
    restore = functools.partial(restored, ThreadState.now())  # the state that the guards require
    lines = [f"s = guards({steps.roots()})", "if s is None: return MISS", *call, *ending]
    source = f"def segment({'F' if function is None else 'S'}):\n    " + "\n    ".join(lines) + "\n"
    names = {"K": tracker.constants, "graph": compiled, "guards": steps.compiled(), "restore": restore}
    run = _function(source, where, function=function, **names)
    reason = machine.reason if outcome is Outcome.BROKE else ""
    at_entry = None if function is None else run
    guards = list(tracker.guards)
    return Segment(run, source, guards, tracker.constants, graph, reason, where, at_entry, variants)


def _compiled(
    machine: Machine, backend: Backend, is_per_size: bool
) -> tuple[GraphModule, Callable[..., Any], Variants | None]:
    """Return a segment's graph, the function that runs it, and its variants if input sizes may differ."""
    recorder = machine.recorder
    graph = GraphModule(
        recorder.attributes,
        without_idle_numbers(recorder.graph, set(recorder.journal.numbers)),
        "CapturedGraph",
    )
    examples = [example for _, example in recorder.inputs]
    places = [i for i, example in enumerate(examples) if id(example) in machine.tracker.any_size]
    if not places:
        return graph, backend(graph, examples), None
    variants = Variants(graph, recorder.graph, recorder.journal, places, backend, is_per_size)
    return graph, variants.start(examples), variants


def _function(source: str, where: str, **names: Any) -> Callable[..., Any]:
    names |= {"MISS": MISS, "FINISHED": Outcome.FINISHED, "BROKE": Outcome.BROKE}
    exec(compile(source, f"<segment of {where}>", "exec"), names)
    run: Callable[..., Any] = names["segment"]
    return run


def _written(machine: Machine, outcome: Outcome, steps: Steps) -> tuple[Steps, Rebuilder, list[str]]:
    """Write a segment's guards and its end; `NotAtEntry` if they read more than the function's variables."""
    tracker, recorder = machine.tracker, machine.recorder
    for guard in tracker.guards:
        steps.check(guard)
    origins = [origin for origin, _ in recorder.inputs]
    steps.check_distinct(origins)  # otherwise a write to one input could change another input
    steps.arguments(origins)
    rebuilder = Rebuilder(tracker, recorder, steps.value)
    ending = _ending(machine, outcome, rebuilder)
    effects = rebuilder.effects()
    steps.roots()
    return steps, rebuilder, [*rebuilder.lines, *rebuilder.late, *effects, ending]


def _ending(machine: Machine, outcome: Outcome, rebuilder: Rebuilder) -> str:
    if outcome is Outcome.FINISHED:
        return f"return FINISHED, {rebuilder.value(machine.result)}"
    frames = [rebuilder.frame(frame, machine.lazy) for frame in machine.frames]
    return f"return BROKE, [{', '.join(frames)}]"
