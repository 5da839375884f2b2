"""Code that rebuilds the values at a segment's end from the graph's results, origins and constants."""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.compiler.capture.attributes import find, instance_dict
from flambeau.compiler.capture.calls import has_python_layout
from flambeau.compiler.capture.frames import Frame, Generator, _Marker
from flambeau.compiler.capture.origins import Origin
from flambeau.compiler.capture.recording import Recorder
from flambeau.compiler.capture.tracker import IDENTICAL, NotRebuilt, Tracker, is_constant
from flambeau.compiler.symbolic.numbers import Tracked
from flambeau.fx.node import Node

_LITERALS = (type(None), bool, int, str)
_BUILTIN_ITERATORS = ("builtins", "itertools")


class Rebuilder:
    """Writes the lines of code after the call of the graph.

    Args:
        tracker: the segment's origins and constants; the rebuilder adds constants.
        recorder: the segment's graph.
        read: returns the variable that holds the value at an origin.
    """

    def __init__(self, tracker: Tracker, recorder: Recorder, read: Callable[[Origin], str]) -> None:
        self.tracker, self.recorder, self.read = tracker, recorder, read
        self.lines: list[str] = []
        self.late: list[str] = []  # lines that run after all objects are made
        self.outputs: list[Node] = []
        self._known: dict[int, str] = {}
        self._kept: list[Any] = []  # keeps objects alive, so that their ids stay unique
        self._open: set[int] = set()
        self._count = 0
        self.running: dict[int, str] = {}  # generators whose frames belong to the segment

    def constant(self, value: Any) -> str:
        """Return the expression of an object that the segment keeps."""
        return f"K[{self.tracker.constant(value)}]"

    def variable(self, expression: str) -> str:
        """Assign an expression to a new variable."""
        name = f"v{self._count}"
        self._count += 1
        self.lines.append(f"{name} = {expression}")
        return name

    def value(self, value: Any) -> str:
        """Return the expression of a value at the end of the segment."""
        if type(value) in _LITERALS:
            return repr(value)
        found = self._known.get(id(value))
        if found is not None:
            return found
        if isinstance(value, flambeau.Tensor):
            return self._tensor(value)
        if isinstance(value, Tracked):
            return self._output(value, value.node)
        if is_constant(value) or isinstance(value, _Marker):
            return self.constant(value)
        origin = self.tracker.origin_of(value)
        if origin is not None:
            return self.read(origin)
        if isinstance(value, IDENTICAL) and not self._is_made(value):
            return self.constant(value)
        return self._made(value)

    def _is_made(self, value: Any) -> bool:
        if isinstance(value, types.BuiltinFunctionType):
            return not isinstance(value.__self__, types.ModuleType | type | None)
        return isinstance(value, types.FunctionType) and value.__closure__ is not None

    def _tensor(self, value: flambeau.Tensor) -> str:
        origin = self.tracker.origin_of(value)
        if origin is not None:
            return self.read(origin)
        node = self.recorder.node_of(value)
        if node is None:
            raise NotRebuilt("a tensor that was made outside the graph")
        return self._output(value, node)

    def _output(self, value: Any, node: Node) -> str:
        if node not in self.outputs:
            self.outputs.append(node)
        self._known[id(value)] = text = f"out[{self.outputs.index(node)}]"
        return text

    def _made(self, value: Any) -> str:
        """Return the expression of an object that the segment made."""
        if id(value) in self._open:
            raise NotRebuilt(f"a cycle through a {type(value).__name__}")
        self._open.add(id(value))
        self._kept.append(value)
        writer = self._writer(value)
        name = writer(value)
        self._open.discard(id(value))
        self._known[id(value)] = name
        return name

    def _writer(self, value: Any) -> Callable[[Any], str]:
        kind = type(value)
        exact: dict[type, Callable[[Any], str]] = {
            list: lambda v: self.variable(f"[{self._all(v)}]"),
            flambeau.Size: lambda v: self.variable(f"{self.constant(flambeau.Size)}([{self._all(v)}])"),
            tuple: lambda v: self.variable(f"({self._all(v)}{',' if len(v) == 1 else ''})"),
            set: lambda v: self.variable(f"{{{self._all(v)}}}" if v else "set()"),
            frozenset: lambda v: self.variable(f"frozenset(({self._all(v)},))" if v else "frozenset()"),
            dict: lambda v: self.variable(f"{{{self._pairs(v)}}}"),
            deque: lambda v: self.variable(f"{self.constant(deque)}([{self._all(v)}], {v.maxlen})"),
            slice: lambda v: self.variable(f"slice({self._all((v.start, v.stop, v.step))})"),
            types.MethodType: self._method,
            types.CellType: self._cell,
            types.FunctionType: self._function,
            super: lambda v: self.variable(f"super({self.value(v.__thisclass__)}, {self.value(v.__self__)})"),
            Generator: self._generator,
        }
        if kind in exact:
            return exact[kind]
        if kind in (OrderedDict, defaultdict):
            return self._mapping
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return lambda v: self.variable(f"{self.constant(type(v))}({self._all(v)})")
        if isinstance(value, tuple) and hasattr(kind, "n_sequence_fields"):
            return lambda v: self.variable(f"{self.constant(type(v))}(({self._all(v)},))")
        if isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType):
            return self._bound
        if kind.__module__ in _BUILTIN_ITERATORS and hasattr(value, "__next__"):
            return self._iterator
        if isinstance(value, BaseException):
            return self._exception
        return self._instance

    def _all(self, values: Any) -> str:
        return ", ".join(self.value(value) for value in values)

    def _pairs(self, values: Any) -> str:
        return ", ".join(f"{self.value(key)}: {self.value(value)}" for key, value in values.items())

    def _mapping(self, value: Any) -> str:
        first = f"{self.value(value.default_factory)}, " if isinstance(value, defaultdict) else ""
        return self.variable(f"{self.constant(type(value))}({first}{{{self._pairs(value)}}})")

    def _method(self, value: types.MethodType) -> str:
        method = self.constant(types.MethodType)
        return self.variable(f"{method}({self.value(value.__func__)}, {self.value(value.__self__)})")

    def _bound(self, value: Any) -> str:
        """Return the expression of a builtin class's method, which a subclass of the program may override."""
        owner, name = value.__self__, value.__name__
        for base in type(owner).__mro__:
            found: Any = base.__dict__.get(name)
            is_method = isinstance(found, types.MethodDescriptorType | types.WrapperDescriptorType)
            if is_method and found.__get__(owner) == value:
                return self.variable(f"{self.constant(found)}.__get__({self.value(owner)})")
        return self.variable(f"getattr({self.value(owner)}, {name!r})")

    def _cell(self, value: types.CellType) -> str:
        name = self.variable(f"{self.constant(types.CellType)}()")
        self._known[id(value)] = name
        try:
            content = value.cell_contents
        except ValueError:
            return name
        self.late.append(f"{name}.cell_contents = {self.value(content)}")
        return name

    def _function(self, value: types.FunctionType) -> str:
        make = self.constant(types.FunctionType)
        closure = f"({self._all(value.__closure__)},)" if value.__closure__ else "None"
        where = f"{self.constant(value.__code__)}, {self.constant(value.__globals__)}, {value.__name__!r}"
        name = self.variable(f"{make}({where}, {self.value(value.__defaults__)}, {closure})")
        self._known[id(value)] = name
        self.lines.append(f"{name}.__kwdefaults__ = {self.value(value.__kwdefaults__)}")
        own = instance_dict(value)
        if own:
            self.lines.append(f"{name}.__dict__.update({{{self._pairs(own)}}})")
        return name

    def _iterator(self, value: Any) -> str:
        function, args, *state = value.__reduce__()
        name = self.variable(f"{self.constant(function)}({self._all(args)})")
        if state and state[0] is not None:
            self.lines.append(f"{name}.__setstate__({self.value(state[0])})")
        return name

    def _exception(self, value: BaseException) -> str:
        kind = self.constant(type(value))
        name = self.variable(f"{kind}.__new__({kind}, {self._all(value.args)})")
        self._known[id(value)] = name
        self.lines.append(f"{name}.args = ({self._all(value.args)}{',' if value.args else ''})")
        for attribute in ("__cause__", "__context__"):
            linked = getattr(value, attribute)
            if linked is not None:
                self.lines.append(f"{name}.{attribute} = {self.value(linked)}")
        own = {k: v for k, v in (instance_dict(value) or {}).items() if k != "__notes__"}
        if own:
            self.lines.append(f"{name}.__dict__.update({{{self._pairs(own)}}})")
        return name

    def _instance(self, value: Any) -> str:
        kind = type(value)
        own = instance_dict(value)
        is_plain = has_python_layout(kind) and own is not None
        has_slots = any(base.__dict__.get("__slots__") for base in kind.__mro__)
        if not is_plain or has_slots or isinstance(value, flambeau.nn.Module):
            raise NotRebuilt(f"an object of type {kind.__module__}.{kind.__qualname__}")
        name = self.variable(f"object.__new__({self.constant(kind)})")
        self._known[id(value)] = name
        if own:
            self.late.append(f"{name}.__dict__.update({{{self._pairs(own)}}})")
        return name

    # --- frames -------------------------------------------------------------------------------------

    def _generator(self, value: Generator) -> str:
        name = self.variable(f"{self.constant(Generator)}(None)")
        self._known[id(value)] = name
        self.lines.append(f"{name}.is_started = {value.is_started}; {name}.is_running = {value.is_running}")
        if value.is_running:
            self.running[id(value)] = name
        elif value.frame is not None:
            self.late.append(f"{name}.frame = {self.frame(value.frame, {})}")
        return name

    def frame(self, frame: Frame, unread: dict[tuple[int, int], Origin]) -> str:
        """Return the expression of a frame; `unread` maps variables that were not read to their origins."""
        slots = [self._place(frame, n, value, unread) for n, value in enumerate(frame.slots)]
        stack = [self._place(frame, -1 - n, value, unread) for n, value in enumerate(frame.stack)]
        name = self.variable(f"{self.constant(Frame)}({self.value(frame.function)}, [{', '.join(slots)}])")
        self.lines.append(
            f"{name}.stack = [{', '.join(stack)}]; {name}.ip = {frame.ip}; {name}.at = {frame.at}"
        )
        self.lines.append(f"{name}.returns = {self.constant(frame.returns)}")
        if frame.keywords:
            self.lines.append(f"{name}.keywords = {frame.keywords!r}")
        for attribute in ("result", "handled"):
            held = getattr(frame, attribute)
            if held is not None:
                self.lines.append(f"{name}.{attribute} = {self.value(held)}")
        if frame.generator is not None:
            generator = self.value(frame.generator)
            self.late.append(f"{name}.generator = {generator}; {generator}.frame = {name}")
        return name

    def _place(self, frame: Frame, n: int, value: Any, unread: dict[tuple[int, int], Origin]) -> str:
        origin = unread.get((id(frame), n))
        return self.value(value) if origin is None else self.read(origin)

    # --- effects ------------------------------------------------------------------------------------

    def effects(self) -> list[str]:
        """Return the lines that repeat the segment's writes to objects that existed before."""
        lines = []
        for container in self.tracker.mutated.values():
            lines.append(self._contents(container))
        for (_, name), owner in self.tracker.written.items():
            lines.append(self._written(owner, name))
        return [line for line in lines if line]

    def _owner(self, owner: Any) -> str:
        origin = self.tracker.origin_of(owner)
        assert origin is not None
        return self.read(origin)

    def _contents(self, container: Any) -> str:
        place = self._owner(container)
        if isinstance(container, list):
            return f"{place}[:] = [{self._all(container)}]"
        if isinstance(container, dict):
            new = self.variable(f"{{{self._pairs(container)}}}")
            return f"{place}.clear(); {place}.update({new})"
        new = self.variable(f"[{self._all(container)}]")
        if isinstance(container, set):
            return f"{place}.clear(); {place}.update({new})"
        if isinstance(container, deque):
            return f"{place}.clear(); {place}.extend({new})"
        raise NotRebuilt(f"a write to a {type(container).__name__}")

    def _written(self, owner: Any, name: str) -> str:
        place = self._owner(owner)
        if isinstance(owner, types.CellType):
            try:
                return f"{place}.cell_contents = {self.value(owner.cell_contents)}"
            except ValueError:
                return f"del {place}.cell_contents"
        if isinstance(owner, dict):
            return f"{place}[{name!r}] = {self.value(owner[name])}"
        own = instance_dict(owner)
        if own is not None and name in own:
            setter = "setattr" if isinstance(owner, flambeau.Tensor) else "object.__setattr__"
            return f"{setter}({place}, {name!r}, {self.value(own[name])})"
        if own is not None and not hasattr(find(type(owner), name)[0], "__set__"):
            is_buffer = isinstance(owner, flambeau.nn.Module)
            return "" if is_buffer else f"{place}.__dict__.pop({name!r}, None)"
        if hasattr(owner, name):
            return f"object.__setattr__({place}, {name!r}, {self.value(getattr(owner, name))})"
        raise NotRebuilt(f"the deletion of the attribute {name}")
