"""Exceptions that cross a process border, as themselves where that is possible and as text in any case."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass, field
from typing import Any

# Raised elsewhere these would end a loop, a thread or the program without a word.
_CONTROL_FLOW = (StopIteration, StopAsyncIteration, GeneratorExit, SystemExit, KeyboardInterrupt)


class _Text(str):
    """A message with line breaks; KeyError shows the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _pickled(value: Any) -> bytes | None:
    """Return a pickle from which an equal value can be made; None if there is none."""
    try:
        data = pickle.dumps(value)
        return data if type(pickle.loads(data)) is type(value) else None
    except BaseException:
        return None


def _nearest_class(error: BaseException) -> bytes | None:
    """Return the exception's class, or the first of its bases that can be imported, pickled."""
    for kind in type(error).__mro__:
        if kind in (Exception, BaseException):
            break
        if (data := _pickled(kind)) is not None:
            return data
    return None


@dataclass
class Failure:
    """An exception on its way into another process.

    Args:
        text: where it was raised, and its traceback.
        original: the exception, pickled; None if pickling loses it.
        kind: its class or a base of it, pickled; None if there is nothing better than RuntimeError.
        attributes: those of its attributes that can be pickled.
    """

    text: str
    original: bytes | None = None
    kind: bytes | None = None
    attributes: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, error: BaseException, where: str) -> Failure:
        """Describe an exception that was caught `where`."""
        trace = "".join(traceback.format_exception(error))
        text = f"Caught {type(error).__name__} {where}.\nOriginal {trace}"
        if isinstance(error, _CONTROL_FLOW):
            return cls(text)
        if (original := _pickled(error)) is not None:
            return cls(text, original)
        pickles = {name: _pickled(value) for name, value in vars(error).items()}
        return cls(text, None, _nearest_class(error), {k: v for k, v in pickles.items() if v is not None})

    def exception(self) -> BaseException:
        """Return the exception, with the text as its message, or as a note where the message is its own."""
        try:
            error = pickle.loads(self.original) if self.original is not None else self._bare()
        except BaseException:
            return RuntimeError(self.text)
        if len(error.args) <= 1:
            own, error.args = error.args, (_Text(self.text),)
            if self._is_told_by(error):
                return error
            error.args = own
        error.add_note(self.text)
        return error

    def _bare(self) -> Any:
        """Make an exception of the class without its constructor, which wants unknown arguments."""
        if self.kind is None:
            return RuntimeError()
        kind = pickle.loads(self.kind)
        error = kind.__new__(kind)
        for name, value in self.attributes.items():
            setattr(error, name, pickle.loads(value))
        return error

    def _is_told_by(self, error: BaseException) -> bool:
        try:
            return self.text in str(error)
        except Exception:
            return False
