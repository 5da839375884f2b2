"""The state that all parts of the interpreter share: frames, the segment's records, breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.compiler.capture import known
from flambeau.compiler.capture.frames import Frame, Returns
from flambeau.compiler.capture.recording import Recorder, Unrecordable, has_tensor
from flambeau.compiler.capture.tracker import Tracker
from flambeau.compiler.symbolic.numbers import plain

Arguments = tuple[Any, ...]
Target = str | Callable[..., Any]


class Break(Exception):
    """The segment ends before this instruction, which then runs outside of a graph."""


class Core:
    """State of an interpreter: frames, the innermost last, and the records of the current segment."""

    frames: list[Frame]
    tracker: Tracker
    recorder: Recorder
    is_native: bool  # whether the instruction runs without records
    is_spoiled: bool  # whether an effect occurred that a graph cannot hold; such a segment is discarded

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def push(self, value: Any) -> None:
        """Push a value on the stack of the current function."""
        self.frames[-1].stack.append(value)

    def pop(self) -> Any:
        """Pop a value from the stack of the current function."""
        return self.frames[-1].stack.pop()

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call a function; its result is pushed at once or when its frame returns."""
        raise NotImplementedError

    def enter(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call a Python function by interpreting it."""
        raise NotImplementedError

    def call_and_drop(self, function: Any, args: tuple[Any, ...]) -> None:
        """Call a function whose result is not needed."""
        depth = len(self.frames)
        self.call(function, args, {})
        if len(self.frames) > depth:
            self.frames[-1].returns = Returns.DISCARD
        else:
            self.pop()

    def spoil(self, reason: str) -> None:
        """Discard the segment; the current instruction ends a segment from now on."""
        raise NotImplementedError

    def require_known(self, tensor: flambeau.Tensor, name: str = "") -> None:
        """Discard the segment if the graph does not know a tensor.

        Args:
            tensor: the tensor.
            name: the attribute or method that the program reads.
        """
        node = self.recorder.node_of(tensor)
        if node is None:
            self.spoil("a tensor that was made outside the graph")
        elif node in self.recorder.unsteady and name in known.UNSTEADY:
            raise Break(f"{name} of a tensor that is carried through a loop")

    def where(self) -> str:
        """The position of the current instruction, as in a traceback."""
        return "\n".join(f"  {frame.where()}" for frame in self.frames)

    def leaf(
        self,
        op: str,
        target: str | Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str,
    ) -> None:
        """Run a function on tensors, add it to the graph, and push its result."""
        if name in known.READS_ELEMENTS:
            raise Break(f"{name}, which reads the elements of a tensor")
        try:
            given, named = self.recorder.arguments(args, kwargs)
        except Unrecordable as error:
            raise Break(f"{name} with {error}") from None
        result = self.run_leaf(op, target, args, kwargs, name)
        if has_tensor(result):
            self.recorder.record(op, target, given, named, result, self.where())
        elif name not in known.METADATA and name not in known.CONSTANT:
            self.spoil(f"{name}, whose result is not a tensor")
        else:
            result = self.recorder.number(op, target, args, kwargs, result)
        self.push(result)

    def run_leaf(
        self,
        op: str,
        target: str | Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str,
    ) -> Any:
        """Run an operator; discard the segment if the operator raises an error."""
        if self.recorder.journal.numbers:
            args, kwargs = plain(args), plain(kwargs)
        try:
            if isinstance(target, str):
                return getattr(type(args[0]), target)(*args, **kwargs)
            return target(*args, **kwargs)
        except Exception:
            self.spoil(f"an error of {name}")
            raise
