"""Origins of values: the expressions that read them at the start of a segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Expressions use two names: F, the list of frames, and K, the list of constants of the segment.


@dataclass(frozen=True, slots=True)
class Origin:
    """The base class of origins. `base` is the origin of the object that this one reads from."""

    def text(self, base: str) -> str:
        """Return the Python expression, given the expression of the base."""
        raise NotImplementedError

    @property
    def parent(self) -> Origin | None:
        return getattr(self, "base", None)

    def name(self) -> str:
        """Return a readable form, such as ``self.weight``."""
        parent = self.parent
        return self.text(parent.name() if parent else "")


@dataclass(frozen=True, slots=True)
class Slot(Origin):
    """A variable of a frame."""

    frame: int
    index: int
    variable: str

    def text(self, base: str) -> str:
        return f"F[{self.frame}].slots[{self.index}]"

    def name(self) -> str:
        return self.variable


@dataclass(frozen=True, slots=True)
class OnStack(Origin):
    """A value on a frame's stack."""

    frame: int
    index: int

    def text(self, base: str) -> str:
        return f"F[{self.frame}].stack[{self.index}]"

    def name(self) -> str:
        return f"stack[{self.index}]"


@dataclass(frozen=True, slots=True)
class Handled(Origin):
    """The exception that a frame handles."""

    frame: int

    def text(self, base: str) -> str:
        return f"F[{self.frame}].handled"

    def name(self) -> str:
        return "exception"


@dataclass(frozen=True, slots=True)
class InstanceOf(Origin):
    """The instance that an interrupted `__init__` initializes."""

    frame: int

    def text(self, base: str) -> str:
        return f"F[{self.frame}].result"

    def name(self) -> str:
        return "instance"


@dataclass(frozen=True, slots=True)
class FunctionOf(Origin):
    """The function of a frame."""

    frame: int

    def text(self, base: str) -> str:
        return f"F[{self.frame}].function"

    def name(self) -> str:
        return "function"


@dataclass(frozen=True, slots=True)
class Attribute(Origin):
    """An attribute."""

    base: Origin
    attribute: str

    def text(self, base: str) -> str:
        return f"{base}.{self.attribute}"


@dataclass(frozen=True, slots=True)
class Item(Origin):
    """An element of a list, tuple or dict."""

    base: Origin
    key: Any

    def text(self, base: str) -> str:
        return f"{base}[{self.key!r}]"


@dataclass(frozen=True, slots=True)
class Keyed(Origin):
    """An element of a dict whose key is not a literal but the constant number `index`."""

    base: Origin
    index: int

    def text(self, base: str) -> str:
        return f"{base}[K[{self.index}]]"


@dataclass(frozen=True, slots=True)
class Nth(Origin):
    """An element of an iterable without subscripts, such as a set, by its index in iteration order."""

    base: Origin
    index: int

    def text(self, base: str) -> str:
        return f"nth({base}, {self.index})"


@dataclass(frozen=True, slots=True)
class Constant(Origin):
    """An object that the segment keeps, such as the globals of a module."""

    index: int
    title: str

    def text(self, base: str) -> str:
        return f"K[{self.index}]"

    def name(self) -> str:
        return self.title


@dataclass(frozen=True, slots=True)
class Cell(Origin):
    """A cell of a function's closure."""

    base: Origin
    index: int

    def text(self, base: str) -> str:
        return f"{base}.__closure__[{self.index}]"


@dataclass(frozen=True, slots=True)
class Content(Origin):
    """The value in a cell."""

    base: Origin

    def text(self, base: str) -> str:
        return f"{base}.cell_contents"


@dataclass(frozen=True, slots=True)
class Gradient(Origin):
    """The gradient of a tensor."""

    base: Origin

    def text(self, base: str) -> str:
        return f"{base}.grad"


@dataclass(frozen=True, slots=True)
class Referent(Origin):
    """The object that a weak reference refers to."""

    base: Origin

    def text(self, base: str) -> str:
        return f"{base}()"
