"""The origins, guards and writes of one segment."""

from __future__ import annotations

import enum
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import flambeau
from flambeau.compiler.capture.guards import Check, Guard, tensor_check, thread_check
from flambeau.compiler.capture.origins import Constant, Content, Item, Keyed, Nth, Origin
from flambeau.compiler.symbolic.numbers import is_tracked

# Classes of immutable values that a guard compares by value.
LEAVES = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(Ellipsis),
    type(NotImplemented),
    slice,
    range,
)
_TORCH_LEAVES = (flambeau.dtype, flambeau.device, flambeau.layout, flambeau.memory_format)
# Classes of objects that a guard compares by identity.
IDENTICAL = (
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType, staticmethod,
    classmethod, property, types.CodeType, type(flambeau.tensor), flambeau._C._CustomObject,
)  # fmt: skip
SEQUENCES = (list, tuple, deque)
MAPPINGS = (dict, OrderedDict, defaultdict, types.MappingProxyType)


class NotRebuilt(Exception):
    """Raised for a value that a segment cannot rebuild; the function then runs uncompiled."""


def is_leaf(value: Any) -> bool:
    """Whether a value is an immutable constant."""
    if isinstance(value, LEAVES + _TORCH_LEAVES):
        return not isinstance(value, flambeau.Size) and not is_tracked(value)
    return isinstance(value, enum.Enum)


def is_constant(value: Any) -> bool:
    """Whether a value is a constant, or a tuple or frozenset of constants."""
    if type(value) in (tuple, frozenset, flambeau.Size):
        return all(map(is_constant, value))
    return is_leaf(value)


class Tracker:
    """Origins of objects by identity, the guards that reads add, and the objects that were written to.

    Args:
        has_any_size: tells whether the guard of a tensor leaves sizes and strides open. None: no guard does.
    """

    def __init__(self, has_any_size: Callable[[Origin, flambeau.Tensor], bool] | None = None) -> None:
        self._has_any_size = has_any_size
        self.any_size: dict[int, tuple[Origin, int, Any]] = {}  # tensor -> origin, guard's place, exact guard
        self.origins: dict[int, Origin] = {}
        self.guards: dict[Guard, None] = {}
        self.constants: list[Any] = []
        self.written: dict[tuple[int, str], Any] = {}  # (object, attribute) -> the object
        self.mutated: dict[int, Any] = {}  # containers with an origin whose contents changed
        self._places: dict[int, int] = {}
        self._kept: list[Any] = []  # keeps objects alive, so that their ids stay unique
        self._made: set[int] = set()  # objects in `_kept` that the segment may have made
        self._expanded: set[int] = set()
        self.constant(thread_check())  # the first constant

    # --- constants and guards ---------------------------------------------------------------------

    def constant(self, value: Any) -> int:
        """Return the index of an object among the segment's constants; add it if it is new."""
        place = self._places.get(id(value))
        if place is None:
            place = self._places[id(value)] = len(self.constants)
            self.constants.append(value)
        return place

    def guard(self, origin: Origin, check: Check, expected: Any) -> None:
        """Add a condition."""
        self.guards[Guard(origin, check, expected)] = None

    def origin_of(self, value: Any) -> Origin | None:
        """Return the origin of an object; None for an object that the segment made."""
        return self.origins.get(id(value))

    def keep(self, value: Any) -> Any:
        """Keep an object alive until the segment ends."""
        self._kept.append(value)
        self._made.add(id(value))
        return value

    def origin_of_function(self, function: types.FunctionType) -> Origin | None:
        """Return the origin of a function that is called; None for one that the segment made.

        A function that no guarded read has found, such as the getter of a property, becomes a constant of the
        segment, so that what its closure and its defaults hold has an origin.
        """
        if id(function) not in self.origins and id(function) not in self._made:
            self.hold(function, function.__qualname__)
        return self.origins.get(id(function))

    def hold(self, value: Any, title: str) -> None:
        """Make an object that existed before the segment one of its constants, unless it has an origin."""
        if id(value) not in self.origins:
            self.origins[id(self.keep(value))] = Constant(self.constant(value), title)

    def kept(self) -> Iterable[Any]:
        """The objects that are kept alive, which include all objects that the segment made."""
        return self._kept

    # --- reads ------------------------------------------------------------------------------------

    def adopt(self, value: Any, origin: Origin) -> None:
        """Note that a value was read from an origin, and add the guards on that value."""
        known = self.origins.get(id(value))
        if known == origin:
            return
        if is_leaf(value):
            self.guard(origin, Check.EQUALS, self.constant(value))
            return
        if known is not None:
            self.guard(origin, Check.SAME, known)
            return
        self.origins[id(self.keep(value))] = origin
        if isinstance(value, IDENTICAL):
            self.guard(origin, Check.IDENTITY, self.constant(value))
        elif isinstance(value, flambeau.Tensor):
            self.guard(origin, Check.TENSOR, self._tensor_place(value, origin))
        else:
            self.guard(origin, Check.TYPE, self.constant(type(value)))

    def guard_value(self, tensor: flambeau.Tensor | None, origin: Origin) -> None:
        """Guard a tensor or None that code outside of the graph reads; the value gets no origin."""
        if tensor is None:
            self.guard(origin, Check.EQUALS, self.constant(None))
        else:
            self.guard(origin, Check.TENSOR, self._tensor_place(tensor, origin))

    def _tensor_place(self, tensor: flambeau.Tensor, origin: Origin) -> int:
        exact = tensor_check(tensor)
        if self._has_any_size is None or not self._has_any_size(origin, tensor):
            return self.constant(exact)
        place = self.constant(tensor_check(tensor, any_size=True))
        self.any_size[id(tensor)] = origin, place, exact
        return place

    def fix_sizes(self) -> None:
        """Guard the sizes and strides of all tensors."""
        for _, place, exact in self.any_size.values():
            self.constants[place] = exact
        self.any_size.clear()

    def expand(self, container: Any) -> None:
        """Give origins to the elements of a list, tuple, dict or set that has an origin."""
        origin = self.origins.get(id(container))
        if origin is None or id(container) in self._expanded:
            return
        self._expanded.add(id(container))
        if isinstance(container, dict | types.MappingProxyType):
            self._expand_mapping(container, origin)
        elif isinstance(container, list | tuple | deque):
            self.guard(origin, Check.LENGTH, len(container))
            for i, value in enumerate(container):
                self.adopt(value, Item(origin, i))
        elif isinstance(container, set | frozenset):
            self.guard(origin, Check.LENGTH, len(container))
            for i, value in enumerate(container):
                self.adopt(value, Nth(origin, i))
        elif isinstance(container, types.CellType):
            self.read_cell(container)

    def _expand_mapping(self, mapping: Any, origin: Origin) -> None:
        keys = tuple(mapping)
        if not all(is_constant(key) or isinstance(key, IDENTICAL) for key in keys):
            self.guard(origin, Check.LENGTH, len(keys))
            for i, key in enumerate(keys):
                self.adopt(key, Nth(origin, i))
        else:
            self.guard(origin, Check.KEYS, self.constant(keys))
        for key, value in mapping.items():
            literal = type(key) in (str, int, bool, type(None))
            self.adopt(value, Item(origin, key) if literal else Keyed(origin, self.constant(key)))

    def expand_all(self, values: Iterable[Any]) -> None:
        """Expand values and their elements recursively, for code that reads all of them."""
        waiting, seen = list(values), set()
        while waiting:
            value = waiting.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            self.expand(value)
            if isinstance(value, dict):
                waiting.extend([*value.values(), *value])
            elif isinstance(value, list | tuple | set | frozenset | deque):
                waiting.extend(value)

    def read_cell(self, cell: types.CellType) -> None:
        """Note that the content of a cell was read."""
        origin = self.origins.get(id(cell))
        if origin is not None and (id(cell), "") not in self.written:
            self.adopt(cell.cell_contents, Content(origin))

    # --- writes -----------------------------------------------------------------------------------

    def mutate(self, container: Any) -> None:
        """Note that the contents of a container are about to change."""
        if id(container) in self.origins and id(container) not in self.mutated:
            self.expand(container)
            self.mutated[id(container)] = container

    def write(self, owner: Any, attribute: str) -> None:
        """Note that an attribute of an object was set or deleted."""
        if id(owner) in self.origins:
            self.written[id(owner), attribute] = owner

    def is_written(self, owner: Any, attribute: str) -> bool:
        """Whether the segment set or deleted an attribute of an object."""
        return (id(owner), attribute) in self.written
