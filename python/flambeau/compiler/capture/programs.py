"""Compiled functions: the cache of segments, and the loop that runs or records them."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._C import _enter_compiled, _leave_compiled
from flambeau._dynamo import config
from flambeau._dynamo.eval_frame import is_dynamo_supported
from flambeau._dynamo.exc import BackendCompilerFailed, RecompileLimitExceeded, Unsupported
from flambeau._dynamo.utils import counters
from flambeau.compiler import logs, trace
from flambeau.compiler._stance import set_stance
from flambeau.compiler.aot.state import ThreadState, kept_state
from flambeau.compiler.capture import calls, verify
from flambeau.compiler.capture.binders import binder, signature_of
from flambeau.compiler.capture.frames import Frame, variables
from flambeau.compiler.capture.guards import Check
from flambeau.compiler.capture.instructions import has_known_instructions
from flambeau.compiler.capture.machine import Machine, Outcome, Place, raised_in, run_to_the_end, step
from flambeau.compiler.capture.origins import Origin
from flambeau.compiler.capture.segments import MISS, Backend, Segment, build
from flambeau.compiler.capture.tracker import NotRebuilt

Key = tuple[tuple[types.CodeType, int], ...]


class Sizes:
    """The tensors of a function whose sizes differ from call to call.

    Args:
        dynamic: True: all tensors except parameters; False: none; None: those whose sizes have differed.
    """

    def __init__(self, dynamic: bool | None) -> None:
        self.dynamic = dynamic
        self.varying: set[Origin] = set()
        self.held: set[Origin] = set()  # inputs of graphs that cannot run on "meta"; their sizes stay fixed

    def has_any_size(self, origin: Origin, tensor: Any) -> bool:
        """Whether a recording leaves the sizes of a tensor open."""
        if origin in self.held or not _is_simple(tensor):
            return False
        marks = tensor.__dict__.get("_dynamo_sizes")
        if marks is not None:
            return marks == "dynamic"
        return origin in self.varying or bool(self.dynamic)

    def note(self, recorded: list[Segment], frames: list[Frame]) -> None:
        """Note the tensors of a call that differ from the recorded segments in sizes only."""
        for segment in recorded:
            if segment.variants is not None and segment.variants.is_broken:
                self.held.update(guard.origin for guard in segment.guards if guard.check is Check.TENSOR)
        if self.dynamic is not False and config.automatic_dynamic_shapes:
            self.varying.update(recorded[-1].origins_of_other_sizes(frames))

    def reset(self) -> None:
        """Forget all noted tensors."""
        self.varying.clear()
        self.held.clear()


def _is_simple(tensor: Any) -> bool:
    return (
        type(tensor) is flambeau.Tensor
        and tensor.layout is flambeau.strided
        and tensor.device.type == "cpu"
        and tensor.dim() > 0
        and not (tensor.is_conj() or tensor.is_neg() or flambeau._C._is_functional(tensor))
    )


_CHANGED = 2  # a result of _enter_compiled
_SUSPENDED = 0x20 | 0x80 | 0x100 | 0x200  # generators and coroutines
_programs: weakref.WeakSet[Program] = weakref.WeakSet()


def count(category: str, what: str) -> None:
    """Increment a counter."""
    counters[category][what] += 1


class Program:
    """A function and its recorded segments.

    Args:
        function: the function.
        backend: takes a graph module and example inputs, and returns the function that replaces the graph.
        is_whole: whether a break is an error.
        limit: how often segments are recorded at one position; None: the limit in the settings.
        dynamic: see `Sizes`.
    """

    def __init__(
        self,
        function: types.FunctionType,
        backend: Backend,
        is_whole: bool = False,
        limit: int | None = None,
        dynamic: bool | None = None,
    ) -> None:
        _programs.add(self)
        self.sizes = Sizes(dynamic)
        self.limit = limit
        self.function = function
        self.backend = backend
        self.is_whole = is_whole
        self.segments: dict[Key, list[Segment]] = {}
        self.breaks: set[Place] = set()
        self.changing: set[Origin] = set()
        self.unrecorded: set[Key] = set()  # positions whose next instruction cannot be part of a graph
        self.is_given_up = "" if self._is_known() else "its code has instructions that are not interpreted"
        self.is_plain = False  # the function runs uncompiled, because its graphs are not faster
        self.log: list[str] = []
        self._read_signature()

    def _read_signature(self) -> None:
        """Note the function's code and defaults, which programs may replace."""
        function = self.function
        self._signature = signature_of(function)
        self._entry: Key = ((function.__code__, 0),)
        self._bind = binder(function) or self._bind_slowly
        self._at_entry: list[Callable[[list[Any]], Any]] = []
        self._note_entries()

    def _bind_slowly(self, *args: Any, **kwargs: Any) -> list[Any]:
        return variables(self.function, calls.bind(self.function, args, kwargs))

    def _note_entries(self) -> None:
        """Collect the segments that can run at the beginning of the function without a frame."""
        runs = [segment.run_at_entry for segment in self.segments.get(self._entry, ())]
        self._at_entry = [run for run in runs if run is not None]

    def _is_known(self) -> bool:
        code = self.function.__code__
        is_plain = not code.co_flags & _SUSPENDED
        return is_dynamo_supported() and is_plain and has_known_instructions(code)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        function = self.function
        is_plain = self.is_given_up or self.is_plain or config.disable
        if is_plain or set_stance.current == "force_eager":
            return function(*args, **kwargs)
        entered = _enter_compiled(function, self._signature)
        if not entered:
            return function(*args, **kwargs)
        try:
            if entered == _CHANGED:
                self._read_signature()
            try:
                slots = self._bind(*args, **kwargs)
            except TypeError:
                slots = None
            if slots is not None:
                for run in self._at_entry:
                    result = run(slots)
                    if result is not MISS:
                        return result[1] if result[0] is Outcome.FINISHED else self._go_on(result[1])
                result = self._run([Frame(function, slots)])
                self.is_plain = self._gains_nothing()
                return result
        finally:
            _leave_compiled()
        return function(*args, **kwargs)  # raises TypeError

    def _gains_nothing(self) -> bool:
        """Whether the backend reported for every graph that compiling it gains no speed."""
        graphs = [s.graph for recorded in self.segments.values() for s in recorded if s.graph is not None]
        return bool(graphs) and all(graph.meta.get("gain") is False for graph in graphs)

    def _run(self, frames: list[Frame]) -> Any:
        outcome, value = self._segment(tuple((frame.code, frame.ip) for frame in frames), frames)
        return value if outcome is Outcome.FINISHED else self._go_on(value)

    def _go_on(self, frames: list[Frame]) -> Any:
        """Continue after the end of a segment."""
        while True:
            outcome, value = step(frames)
            if outcome is Outcome.FINISHED:
                return value
            if self.is_given_up:
                return run_to_the_end(value)
            key = tuple((frame.code, frame.ip) for frame in value)
            frames = value
            try:
                known, value = self._known(key, frames)
            except BaseException as error:  # an operator in a graph raised it
                return run_to_the_end(raised_in(frames, error))
            outcome, value = self._record(key, frames) if known is None else (known, value)
            if outcome is Outcome.FINISHED:
                return value
            frames = value

    def _segment(self, key: Key, frames: list[Frame]) -> tuple[Outcome, Any]:
        """Run a recorded segment that fits, or record a new one."""
        outcome, value = self._known(key, frames)
        return self._record(key, frames) if outcome is None else (outcome, value)

    def _known(self, key: Key, frames: list[Frame]) -> tuple[Outcome | None, Any]:
        if key in self.unrecorded:
            return Outcome.BROKE, frames
        for segment in self.segments.get(key, ()):
            result = segment.run(frames)
            if result is not MISS:
                outcome, value = result
                return outcome, value
        return None, None

    # --- recording ----------------------------------------------------------------------------------

    def _record(self, key: Key, frames: list[Frame]) -> tuple[Outcome, Any]:
        recorded = self.segments.setdefault(key, [])
        if set_stance.current == "eager_on_recompile":
            return Outcome.FINISHED, run_to_the_end(frames)
        if set_stance.current == "fail_on_recompile":
            why = recorded[-1].explain_miss(frames)[0] if recorded else "it was not recorded before"
            raise RuntimeError(
                f"compile: expected a recorded graph for {self.function.__qualname__} "
                f"(set_stance('fail_on_recompile')), got a call that must be recorded: {why}"
            )
        if recorded and not self._may_record_again(recorded, frames):
            return Outcome.FINISHED, run_to_the_end(frames)
        machine = Machine(frames, self.breaks, frozenset(self.changing), has_any_size=self.sizes.has_any_size)
        where = frames[-1].where()
        begin = ThreadState.now()
        outcome = machine.record()
        if outcome is Outcome.BROKE:
            self._note_break(machine)
            if machine.steps == 0:
                self.unrecorded.add(key)
                return outcome, machine.frames
        if machine.is_spoiled:
            self._note_break(machine)
        else:
            with kept_state(begin):  # the backend compiles in the state in which the graph will run
                self._keep_shown(key, machine, outcome, where)
        machine.release_numbers()
        return outcome, machine.result if outcome is Outcome.FINISHED else machine.frames

    def _keep_shown(self, key: Key, machine: Machine, outcome: Outcome, where: str) -> None:
        with trace.page(self.function.__qualname__, where, trace.directory(self.backend)) as page:
            if page is not None:
                if outcome is Outcome.BROKE:
                    page.reason = f"{machine.reason}\n{machine.where() if machine.frames else ''}"
                page.show_code(self.function.__code__, page.reason.rpartition("\n")[2])
            self._keep(key, machine, outcome, where)

    def _keep(self, key: Key, machine: Machine, outcome: Outcome, where: str) -> None:
        try:
            segment = build(
                machine,
                outcome,
                self._compile,
                where,
                self.function if key == self._entry else None,
                getattr(getattr(self.backend, "func", self.backend), "is_per_size", False),
            )
        except NotRebuilt as error:
            self.give_up(f"{error} at {where}")
            return
        self._show(segment)
        count("stats", "unique_graphs" if segment.graph is not None else "segments_without_graph")
        self.segments.setdefault(key, []).append(segment)
        self._note_entries()

    def _show(self, segment: Segment) -> None:
        name = self.function.__qualname__
        logs.say("guards", lambda: "\n".join([f"Guards of {name}:", *map(str, segment.guards)]))
        graph = segment.graph
        if graph is not None:
            logs.say("graph_code", lambda: f"Graph of {name} at {segment.where}:\n{graph.code}")

    def _compile(self, graph: Any, examples: list[Any]) -> Callable[..., Any]:
        try:
            compiled = self.backend(graph, examples)
        except Exception as error:
            name = getattr(self.backend, "__name__", type(self.backend).__name__)
            raise BackendCompilerFailed(
                f"compile: the backend {name!r} raised {type(error).__name__}: {error}"
            ) from error
        if not callable(compiled):
            raise BackendCompilerFailed(
                f"compile: expected the backend to return a function, got {type(compiled).__name__}"
            )
        if verify.is_asked_for():
            return verify.verified(graph, compiled, self.function.__qualname__)
        return compiled

    def _note_break(self, machine: Machine) -> None:
        where = machine.where() if machine.frames else ""
        text = f"{machine.reason}\n{where}"
        logs.say("graph_breaks", lambda: f"Graph break in {self.function.__qualname__}: {text}")
        if self.is_whole:
            raise Unsupported(
                f"compile: expected one graph (fullgraph=True), got an end of the graph: {text}\n"
                "Move this code out of the compiled function, or omit fullgraph=True."
            )
        count("graph_break", machine.reason)
        self.log.append(text)

    def _may_record_again(self, recorded: list[Segment], frames: list[Frame]) -> bool:
        reason, guard = recorded[-1].explain_miss(frames)
        self.sizes.note(recorded, frames)
        self.log.append(f"recorded again: {reason}")
        logs.say("recompiles", lambda: f"Recompiling {self.function.__qualname__}: {reason}")
        if guard is not None and guard.check is Check.EQUALS:
            expected = recorded[-1].constants[guard.expected]
            if type(expected) in (int, float) and len(recorded) > 1:
                self.changing.add(guard.origin)
        limit = config.recompile_limit if self.limit is None else self.limit
        if len(recorded) < limit:
            return True
        name = self.function.__qualname__
        text = f"compile: {name} was recorded {len(recorded)} times; last difference: {reason}"
        if self.is_whole:
            raise RecompileLimitExceeded(text)
        self.give_up(text)
        return False

    def give_up(self, reason: str) -> None:
        """Run the function uncompiled from now on."""
        import warnings

        self.is_given_up = reason
        if self.is_whole:
            raise Unsupported(f"compile: expected one graph (fullgraph=True), got {reason}")
        count("unimplemented", reason)
        warnings.warn(f"compile: the function runs uncompiled from now on: {reason}", stacklevel=4)

    def reset(self) -> None:
        """Forget all segments."""
        for table in (self.segments, self.breaks, self.changing, self.unrecorded):
            table.clear()
        self.sizes.reset()
        self._at_entry = []
        self.is_plain = False
        self.is_given_up = ""


def is_recording() -> bool:
    """Whether a compiled function is running in this thread."""
    is_running: bool = flambeau._C._is_in_compiled()
    return is_running


def reset() -> None:
    """Forget the segments of all programs."""
    for program in list(_programs):
        program.reset()
