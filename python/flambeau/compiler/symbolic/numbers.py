"""Numbers that depend on the sizes of tensors while a program is recorded.

A tracked number is a Python number of the running program with a reference to the node that computes it.
Arithmetic and arguments of operators refer to the node. Every other use makes the number a constant:
`Journal.fix` notes its value as a fact, and the program is recorded again for sizes that violate a fact.
"""

from __future__ import annotations

import builtins
import contextlib
import math
import operator
from collections import deque
from collections.abc import Callable
from types import CellType
from typing import Any

from flambeau.fx.graph import Graph
from flambeau.fx.node import Node

# Functions of numbers and of sequences of numbers that a graph can hold as nodes.
ARITHMETIC: frozenset[Any] = frozenset(
    {getattr(operator, name) for name in (
        "add sub mul truediv floordiv mod pow neg pos abs iadd isub imul itruediv ifloordiv imod ipow "
        "index lshift rshift and_ or_ xor invert"
    ).split()}
    | {getattr(math, name) for name in "sqrt ceil floor log log2 log10 exp pow prod gcd trunc".split()}
    | {int, float, abs, min, max, round, pow, divmod}
)  # fmt: skip
# Functions that move values and do not read the numbers among them.
MOVES: frozenset[Any] = frozenset(
    {list, tuple, dict, len, zip, enumerate, reversed, iter, next, slice, tuple.__new__, object.__new__}
)
MOVING_METHODS = frozenset(
    "append extend appendleft extendleft get items values keys copy clear __iter__ __init__ "
    "__setattr__".split()
)
# Methods of lists and tuples that read numbers among their arguments but no elements.
PLACING_METHODS = frozenset("__getitem__ __add__ __radd__ __mul__ __rmul__ __len__ insert pop".split())


class Journal:
    """The assumptions of one recording about tracked numbers.

    Args:
        graph: receives the nodes.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.facts: list[tuple[Node, Any]] = []  # (node, the value that it must have)
        self.numbers: dict[Node, Any] = {}  # nodes of numbers -> the value while recording
        self.is_open = True
        self._fixed: set[Node] = set()

    def compute(self, op: str, target: Any, args: Any, kwargs: Any, value: Any) -> Any:
        """Add a node whose result is not a tensor; return the value, tracked if it is a number."""
        node = self.graph.create_node(op, target, args, kwargs)
        self.numbers[node] = value
        if type(value) in _TRACKED:
            return _TRACKED[type(value)](value, node, self)
        if type(value) is tuple and value and all(type(item) in _TRACKED for item in value):
            return tuple(
                self.compute("call_function", operator.getitem, (node, i), {}, item)
                for i, item in enumerate(value)
            )
        self.expect(node, value)
        return value

    def expect(self, node: Node, value: Any) -> None:
        """Note that the recording is valid only if a node has this value."""
        if self.is_open:
            self.facts.append((node, value))

    def fix(self, number: Any) -> None:
        """Note that a tracked number was used as a constant."""
        if number.node not in self._fixed:
            self._fixed.add(number.node)
            self.expect(number.node, plain(number))


class Tracked:
    """The part of tracked integers and floating-point numbers that does not depend on the type."""

    node: Node
    journal: Journal

    def __reduce__(self) -> Any:
        return type(plain(self)), (plain(self),)

    def __copy__(self) -> Any:
        return plain(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return plain(self)


class TrackedInt(Tracked, int):
    """An integer with a node. Operations outside capture fix its value."""

    def __new__(cls, value: int, node: Node, journal: Journal) -> TrackedInt:
        self = int.__new__(cls, value)
        self.node, self.journal = node, journal
        return self


class TrackedFloat(Tracked, float):
    """A floating-point number with a node. Operations outside capture fix its value."""

    def __new__(cls, value: float, node: Node, journal: Journal) -> TrackedFloat:
        self = float.__new__(cls, value)
        self.node, self.journal = node, journal
        return self


_TRACKED: dict[type, Any] = {int: TrackedInt, float: TrackedFloat}
_OPERATIONS = (
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ __rfloordiv__ "
    "__mod__ __rmod__ __pow__ __rpow__ __divmod__ __rdivmod__ __lshift__ __rlshift__ __rshift__ __rrshift__ "
    "__and__ __rand__ __or__ __ror__ __xor__ __rxor__ __neg__ __pos__ __abs__ __invert__ __bool__ __int__ "
    "__float__ __index__ __round__ __trunc__ __floor__ __ceil__ __hash__ __eq__ __ne__ __lt__ __le__ __gt__ "
    "__ge__ __repr__ __str__ __format__"
).split()


def _fixing(name: str, base: type) -> Callable[..., Any]:
    own = getattr(base, name)

    def method(self: Any, *others: Any) -> Any:
        return own(fixed(self), *map(fixed, others))

    method.__name__ = name
    return method


for _base, _kind in _TRACKED.items():
    for _name in _OPERATIONS:
        if _name in vars(_base) or _name in ("__str__", "__format__"):
            setattr(_kind, _name, _fixing(_name, _base))


def is_tracked(value: Any) -> bool:
    """Whether a value is a tracked number."""
    return isinstance(value, Tracked)


def plain(value: Any) -> Any:
    """Replace tracked numbers by plain Python numbers, also inside containers."""
    if isinstance(value, TrackedInt):
        return int.__add__(value, 0)
    if isinstance(value, TrackedFloat):
        return float.__add__(value, 0.0) if float.__ne__(value, 0.0) else float.__mul__(value, 1.0)
    if not holds_tracked(value):
        return value
    return _mapped(value, plain)


def fixed(value: Any) -> Any:
    """Do the same as `plain`, and fix the tracked numbers, because the use is not part of a graph."""
    if isinstance(value, Tracked):
        value.journal.fix(value)
        return plain(value)
    if not holds_tracked(value):
        return value
    return _mapped(value, fixed)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, slice):
        return slice(*map(change, (value.start, value.stop, value.step)))
    if isinstance(value, dict):
        return {change(key): change(item) for key, item in value.items()}
    if hasattr(value, "_fields"):
        return type(value)(*map(change, value))
    if isinstance(value, list):
        return [change(item) for item in value]
    return builtins.tuple.__new__(type(value), tuple(map(change, value)))


def holds_tracked(value: Any) -> bool:
    """Whether a value is a tracked number, or a list, tuple, dict or slice with one inside."""
    if isinstance(value, Tracked):
        return True
    if isinstance(value, list | tuple):
        return any(map(holds_tracked, value))
    if isinstance(value, dict):
        return any(map(holds_tracked, value.values())) or any(map(is_tracked, value))
    return type(value) is slice and any(map(holds_tracked, (value.start, value.stop, value.step)))


def release(owner: Any) -> None:
    """Replace tracked numbers in a container, a cell or an object's attributes by plain ones, in place."""
    if isinstance(owner, dict):
        for key, value in list(owner.items()):
            if holds_tracked(value):
                owner[key] = plain(value)
    elif isinstance(owner, list | deque):
        for i, value in enumerate(owner):
            if holds_tracked(value):
                owner[i] = plain(value)
    elif isinstance(owner, CellType):
        with contextlib.suppress(ValueError):  # an empty cell
            if holds_tracked(owner.cell_contents):
                owner.cell_contents = plain(owner.cell_contents)
    elif not isinstance(owner, type) and isinstance(getattr(owner, "__dict__", None), dict):
        release(owner.__dict__)


def is_arithmetic(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call computes numbers that a graph can compute too."""
    try:
        known = function in ARITHMETIC
    except TypeError:
        return False
    return known and not kwargs and all(map(_is_numeric, args))


def _is_numeric(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(item, int | float) for item in value)
    return isinstance(value, int | float)
