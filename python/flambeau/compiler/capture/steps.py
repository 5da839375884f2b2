"""Translation of a segment's reads and guards to the steps that `_C._Guards` runs."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.compiler.capture.guards import Check, Guard, same_value
from flambeau.compiler.capture.origins import (
    Attribute,
    Cell,
    Constant,
    Content,
    FunctionOf,
    Gradient,
    Item,
    Keyed,
    Nth,
    Origin,
    Referent,
    Slot,
)

# The number of a value while steps are added: 0, 1, ... for reads and -1, -2, ... for roots.
Place = int

_NAMES = {
    Check.TYPE: "type", Check.IDENTITY: "identity", Check.EQUALS: "equals", Check.LENGTH: "length",
    Check.KEYS: "keys", Check.TENSOR: "tensor", Check.ABSENT: "absent", Check.SAME: "same",
    Check.DISTINCT: "distinct",
}  # fmt: skip
_OF_CONSTANTS = (Check.TYPE, Check.IDENTITY, Check.EQUALS, Check.KEYS, Check.TENSOR)


class Steps:
    """Collects steps.

    Args:
        constants: the objects that origins and guards refer to by number.
        is_entry: whether the segment begins at the start of its function; its roots are then the function's
            variables, in the list ``S``, instead of the frames, in the list ``F``.
    """

    def __init__(self, constants: list[Any], is_entry: bool) -> None:
        self.constants = constants
        self.is_entry = is_entry
        self._roots: list[Origin] = []
        self._places: dict[Origin, Place] = {}
        self._steps: list[tuple[str, Place, Any]] = []
        self._read_count = 0
        self._outputs: list[Place] = []

    # --- reads ------------------------------------------------------------------------------------

    def place(self, origin: Origin) -> Place:
        """Return the number of the value at an origin."""
        place = self._places.get(origin)
        if place is None:
            place = self._places[origin] = self._read(origin)
        return place

    def _read(self, origin: Origin) -> Place:
        match origin:
            case Constant(index):
                return self._add_read("constant", 0, self.constants[index])
            case Attribute(base, name):
                return self._add_read("attribute", self.place(base), name)
            case Item(base, key):
                return self._add_read("item", self.place(base), key)
            case Keyed(base, index):
                return self._add_read("item", self.place(base), self.constants[index])
            case Nth(base, index):
                return self._add_read("nth", self.place(base), index)
            case Cell(base, index):
                return self._add_read("item", self.place(Attribute(base, "__closure__")), index)
            case Content(base):
                return self._add_read("attribute", self.place(base), "cell_contents")
            case Gradient(base):
                return self._add_read("attribute", self.place(base), "grad")
            case Referent(base):
                return self._add_read("call", self.place(base), None)
        self._roots.append(origin)
        return -len(self._roots)

    def _add_read(self, name: str, place: Place, argument: Any) -> Place:
        self._steps.append((name, place, argument))
        self._read_count += 1
        return self._read_count - 1

    def value(self, origin: Origin) -> str:
        """The Python expression of the value at an origin, for the lines after the guards."""
        place = self.place(origin)
        if place < 0:
            return self._text(self._roots[-1 - place])
        if place not in self._outputs:
            self._outputs.append(place)
        return f"s[{self._outputs.index(place)}]"

    def arguments(self, origins: list[Origin]) -> str:
        """Return the values at these origins as arguments of a call, as a slice of ``s`` where possible."""
        if len(origins) < 4:
            return ", ".join(map(self.value, origins))
        if not self._outputs:
            self._outputs = [self.place(origin) for origin in origins]
        return f"*s[:{len(origins)}]" if len(self._outputs) > len(origins) else "*s"

    def _text(self, root: Origin) -> str:
        if not self.is_entry:
            return root.text("")
        if isinstance(root, FunctionOf):
            return "function"
        if isinstance(root, Slot) and root.frame == 0:
            return f"S[{root.index}]"
        self.is_entry = False
        raise NotAtEntry

    # --- guards -----------------------------------------------------------------------------------

    def check(self, guard: Guard) -> None:
        """Add a guard."""
        place, expected = self.place(guard.origin), guard.expected
        name = _NAMES[guard.check]
        if guard.check in _OF_CONSTANTS:
            expected = self.constants[expected]
        elif isinstance(expected, Origin):
            expected = (self.place(expected),)
        if guard.check is Check.DISTINCT:
            expected = (place, *expected)
        if guard.check is Check.TENSOR and type(expected) is not flambeau._C._TensorGuard:
            name = "test"
        self._steps.append((name, place, expected))

    def check_distinct(self, origins: list[Origin]) -> None:
        """Add the condition that the values at these origins are different objects."""
        places = tuple(self.place(origin) for origin in origins)
        if len(places) > 1:
            self._steps.append(("distinct", places[0], places))

    # --- results ----------------------------------------------------------------------------------

    def roots(self) -> str:
        """The Python expressions of the values that `compiled` takes."""
        return ", ".join(map(self._text, self._roots))

    def compiled(self) -> Any:
        """Return a function of the roots; it returns the tuple ``s``, or None if a guard fails."""
        count = len(self._roots)

        def numbered(place: Place) -> int:
            return -1 - place if place < 0 else count + place

        steps = [
            (name, numbered(place) if name != "constant" else 0,
             tuple(map(numbered, argument)) if name in ("same", "distinct") else argument)
            for name, place, argument in self._steps
        ]  # fmt: skip
        outputs = tuple(map(numbered, self._outputs))
        return flambeau._C._Guards(count, steps, outputs, self.constants[0], same_value)


class NotAtEntry(Exception):
    """The segment reads parts of its frame other than variables."""
