"""The loop over instructions: exceptions, breaks, the end of a segment."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flambeau.compiler.capture.base import Break
from flambeau.compiler.capture.decode import Instruction
from flambeau.compiler.capture.frames import UNBOUND, Frame, Generator
from flambeau.compiler.capture.instructions import SUPPORTED, UNARY, Instructions
from flambeau.compiler.capture.origins import FunctionOf, Handled, InstanceOf, OnStack, Origin, Slot
from flambeau.compiler.capture.recording import Recorder
from flambeau.compiler.capture.tracker import Tracker, is_leaf
from flambeau.compiler.symbolic.numbers import plain, release

# Instructions that move values without reading them.
_MOVES = frozenset(
    {"POP_TOP", "STORE_FAST", "LOAD_FAST", "LOAD_CONST", "PUSH_NULL", "JUMP_FORWARD", "JUMP_BACKWARD"}
)


class Outcome(enum.Enum):
    """How a run ended."""

    FINISHED = enum.auto()
    BROKE = enum.auto()


@dataclass(frozen=True, slots=True)
class Place:
    """An instruction of a code object."""

    code: types.CodeType
    index: int


_TABLE: dict[str, Callable[[Any, Instruction], None]] = {
    name: getattr(Instructions, name) for name in SUPPORTED if hasattr(Instructions, name)
}
for _name in UNARY:
    _TABLE[_name] = Instructions._unary


class Machine(Instructions):
    """An interpreter of frames.

    Args:
        frames: the functions, the innermost last; they are changed.
        breaks: instructions at which a segment must end; the run adds to them.
        changing: origins of numbers that differ from call to call, so that guards must not compare them.
        is_native: run instructions as Python does, without recording.
        has_any_size: tells whether the sizes of a tensor from an origin may differ from call to call.
    """

    def __init__(
        self,
        frames: list[Frame],
        breaks: set[Place],
        changing: frozenset[Origin] = frozenset(),
        is_native: bool = False,
        has_any_size: Callable[[Origin, Any], bool] | None = None,
    ) -> None:
        self.frames = frames
        self.breaks = breaks
        self.changing = changing
        self.is_native = is_native
        self.is_spoiled = False
        self.reason = ""
        self.tracker = Tracker(has_any_size)
        self.recorder = Recorder(self.tracker)
        self.result: Any = None
        self.is_done = False
        self.steps = 0
        self.lazy: dict[tuple[int, int], Origin] = {}
        self._first_frames = tuple(frames)  # kept alive: origins are found by the ids of frames and functions
        if not is_native:
            self._place_origins()

    # --- values that the program has not read yet ----------------------------------------------------

    def _place_origins(self) -> None:
        for k, frame in enumerate(self.frames):
            self.tracker.origins.setdefault(id(frame.function), FunctionOf(k))
            for n, value in enumerate(frame.slots):
                if value is not UNBOUND:
                    self.lazy[id(frame), n] = Slot(k, n, frame.decoded.slots[n])
            for n in range(len(frame.stack)):
                self.lazy[id(frame), -1 - n] = OnStack(k, n)
            if frame.handled is not None:
                self.tracker.adopt(frame.handled, Handled(k))
            if frame.result is not None:
                self.tracker.adopt(frame.result, InstanceOf(k))

    def _adopt(self, value: Any, origin: Origin) -> None:
        if origin in self.changing and is_leaf(value):
            raise Break("a number that changes from call to call")
        self.tracker.adopt(value, origin)

    def read_slot(self, frame: Frame, index: int) -> None:
        """Note that a variable is read."""
        origin = self.lazy.get((id(frame), index)) if self.lazy else None
        if origin is not None:
            self._adopt(frame.slots[index], origin)
            del self.lazy[id(frame), index]

    def move_to_slot(self, frame: Frame, index: int) -> None:
        """Move the top of the stack to a variable."""
        if self.lazy:
            moved = self.lazy.pop((id(frame), -len(frame.stack)), None)
            self.lazy.pop((id(frame), index), None)
            if moved is not None:
                self.lazy[id(frame), index] = moved
        frame.slots[index] = frame.stack.pop()

    def _read_stack(self, frame: Frame) -> None:
        for n, value in enumerate(frame.stack):
            origin = self.lazy.get((id(frame), -1 - n))
            if origin is not None:
                self._adopt(value, origin)
                del self.lazy[id(frame), -1 - n]

    # --- the loop -----------------------------------------------------------------------------------

    def finish(self, value: Any) -> None:
        """End the outermost frame."""
        self.result, self.is_done = value, True

    def spoil(self, reason: str) -> None:
        """Discard the segment; the current instruction ends a segment from now on."""
        frame = self.frames[-1]
        self.is_spoiled = self.is_native = True
        self.reason = reason
        self.breaks.add(Place(frame.code, frame.at))

    def record(self) -> Outcome:
        """Run until the outermost frame returns, or an instruction cannot be part of a graph."""
        while not self.is_done:
            frame = self.frames[-1]
            stack, keywords, depth = frame.stack[:], frame.keywords, len(self.frames)
            try:
                self._check_place(frame)
                self._step(frame)
            except Break as reason:
                if self.is_spoiled:
                    raise AssertionError(f"capture: a break without records: {reason}") from None
                del self.frames[depth:]
                frame.stack[:], frame.keywords, frame.ip = stack, keywords, frame.at
                self.reason = str(reason)
                return Outcome.BROKE
            self.steps += 1
        return Outcome.FINISHED

    def release_numbers(self) -> None:
        """Replace tracked numbers by plain ones in all values that the program can still reach."""
        journal = self.recorder.journal
        journal.is_open = False
        if not journal.numbers:
            return
        tracker = self.tracker
        for owner in (*tracker.kept(), *tracker.written.values(), *tracker.mutated.values()):
            release(owner)
        self.result = plain(self.result)
        for frame in self.frames:
            frame.slots[:], frame.stack[:] = map(plain, frame.slots), map(plain, frame.stack)

    def _check_place(self, frame: Frame) -> None:
        frame.at = frame.ip
        if self.breaks and not self.is_native and Place(frame.code, frame.ip) in self.breaks:
            raise Break(self.reason or "an instruction that ended a graph before")

    def _step(self, frame: Frame) -> None:
        self.at = frame.at = frame.ip
        i = frame.decoded.instructions[frame.ip]
        frame.ip += 1
        try:
            if self.lazy and i.name not in _MOVES:
                self._read_stack(frame)
            handler = _TABLE.get(i.name)
            if handler is None:
                raise Break(f"the instruction {i.name}")
            if i.name == "POP_TOP" and self.lazy:
                self.lazy.pop((id(frame), -len(frame.stack)), None)
            handler(self, i)
        except Break:
            raise
        except BaseException as error:
            self._unwind(error)

    def _unwind(self, error: BaseException) -> None:
        """Continue at the handler of an exception; raise the exception if no frame handles it."""
        while self.frames:
            frame = self.frames[-1]
            handled = frame.handled
            if error.__context__ is None and handled is not None and handled is not error:
                error.__context__ = handled
            handler = frame.decoded.handlers.get(frame.at)
            if handler is not None:
                del frame.stack[handler.depth :]
                if handler.keeps_position:
                    frame.stack.append(frame.at)
                frame.stack.append(error)
                frame.ip = handler.target
                self.tracker.keep(error)
                return
            self._note(error, frame)
            self.frames.pop()
            if frame.generator is not None:
                frame.generator.frame, frame.generator.is_running = None, False
                if isinstance(error, StopIteration):
                    changed = RuntimeError("generator raised StopIteration")
                    changed.__cause__ = error
                    error = changed
        raise error

    def _note(self, error: BaseException, frame: Frame) -> None:
        place = frame.decoded.instructions[frame.at]
        error.add_note(f'  File "{frame.code.co_filename}", line {place.line}, in {frame.code.co_name}')


def step(frames: list[Frame]) -> tuple[Outcome, Any]:
    """Run one instruction as Python does."""
    machine = Machine(frames, set(), is_native=True)
    machine._step(frames[-1])
    if machine.is_done:
        return Outcome.FINISHED, machine.result
    return Outcome.BROKE, frames


def raised_in(frames: list[Frame], error: BaseException) -> list[Frame]:
    """Raise an exception in frames at the beginning of a segment; return the frames after it is handled.

    The exception passes through the enclosing blocks: context managers exit, and ``except`` clauses match it.
    """
    frames[-1].at = frames[-1].ip
    machine = Machine(frames, set(), is_native=True)
    machine._unwind(error)
    return machine.frames


def run_to_the_end(frames: list[Frame]) -> Any:
    """Run the rest of the program as Python does."""
    machine = Machine(frames, set(), is_native=True)
    machine.record()
    return machine.result


def resume(generator: Generator, value: Any, error: BaseException | None) -> Any:
    """Run a generator for native code up to its next value."""
    frame = generator.frame
    if frame is None:
        raise error if error is not None else StopIteration
    if generator.is_running:
        raise ValueError("generator already executing")
    generator.is_running = generator.is_started = True
    machine = Machine([frame], set(), is_native=True)
    if error is not None:
        machine._unwind(error)
    else:
        frame.stack[-1] = value
    machine.record()
    if generator.frame is None:
        raise StopIteration(machine.result)
    return machine.result
