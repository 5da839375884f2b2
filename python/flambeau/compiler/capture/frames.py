"""The state of a function that is being interpreted."""

from __future__ import annotations

import enum
import types
from collections.abc import Iterable
from typing import Any

from flambeau.compiler.capture.decode import Decoded, Instruction, decode


class _Marker:
    """A unique value; copying or unpickling it returns the same object."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


UNBOUND = _Marker("unbound variable")
NULL = _Marker("no self argument")


class Returns(enum.Enum):
    """What the calling frame does with the value that a frame returns."""

    PUSH = enum.auto()
    DISCARD = enum.auto()
    INSTANCE = enum.auto()  # the frame is an `__init__`; its first argument is pushed
    RESUME = enum.auto()  # the frame is a generator's


class Frame:
    """One running function: variables, value stack, position.

    Args:
        function: the function; its globals, closure and code are read.
        slots: the values of its variables, `UNBOUND` where there is none.
    """

    __slots__ = ("at", "decoded", "function", "generator", "handled", "ip", "keywords", "result", "returns",
                 "slots", "stack")  # fmt: skip

    def __init__(self, function: types.FunctionType, slots: list[Any]) -> None:
        self.function = function
        self.decoded: Decoded = decode(function.__code__)
        self.slots = slots
        self.stack: list[Any] = []
        self.ip = 0  # index of the next instruction
        self.at = 0  # index of the current instruction
        self.keywords: tuple[str, ...] = ()
        self.returns = Returns.PUSH
        self.result: Any = None  # the instance, for a frame of `__init__`
        self.generator: Any = None
        self.handled: BaseException | None = None

    @property
    def code(self) -> types.CodeType:
        return self.decoded.code

    def instruction(self) -> Instruction:
        return self.decoded.instructions[self.ip]

    def where(self) -> str:
        """The position for messages: file, line and function."""
        at = min(self.ip, len(self.decoded.instructions) - 1)
        line = self.decoded.instructions[at].line
        return f"{self.code.co_filename}:{line} in {self.code.co_name}"


def variables(function: types.FunctionType, arguments: Iterable[Any]) -> list[Any]:
    """The slots of a call: first the arguments, then the cells of the closure in their slots."""
    decoded = decode(function.__code__)
    slots: list[Any] = [UNBOUND] * decoded.slot_count()
    for i, value in enumerate(arguments):
        slots[i] = value
    for i, cell in enumerate(function.__closure__ or ()):
        slots[decoded.first_free + i] = cell
    return slots


class Generator:
    """An interpreted generator; native code can iterate over it too."""

    __slots__ = ("__weakref__", "frame", "is_running", "is_started")

    def __init__(self, frame: Frame | None) -> None:
        self.frame = frame
        self.is_running = False
        self.is_started = False

    def __iter__(self) -> Generator:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Resume the generator; StopIteration carries its result."""
        from flambeau.compiler.capture.machine import resume

        return resume(self, value, None)

    def throw(self, error: Any, value: Any = None, traceback: Any = None) -> Any:
        """Raise an exception at the position where the generator is suspended."""
        from flambeau.compiler.capture.machine import resume

        instance = error if isinstance(error, BaseException) else error(*([] if value is None else [value]))
        return resume(self, None, instance)

    def close(self) -> None:
        """End the generator."""
        if self.frame is None or not self.is_started:
            self.frame = None
            return
        try:
            self.throw(GeneratorExit())
        except (GeneratorExit, StopIteration):
            return
        raise RuntimeError("generator ignored GeneratorExit")
