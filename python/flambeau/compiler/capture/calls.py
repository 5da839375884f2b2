"""Calls: decides which functions are interpreted, which become nodes of the graph, and which end it."""

from __future__ import annotations

import functools
import operator
import types
import weakref
from typing import Any

import flambeau
from flambeau._operators.control_flow import cond
from flambeau.compiler.capture import known, polyfills
from flambeau.compiler.capture.attributes import find
from flambeau.compiler.capture.base import Break
from flambeau.compiler.capture.builtin_calls import Builtins
from flambeau.compiler.capture.frames import UNBOUND, Frame, Generator, Returns, variables
from flambeau.compiler.capture.origins import Attribute, Referent
from flambeau.compiler.capture.tracker import is_constant
from flambeau.library._custom import CustomOpDef
from flambeau.ops import Overload, OverloadPacket

_GENERATOR_FLAGS = 0x20
_COROUTINE_FLAGS = 0x80 | 0x200 | 0x100
_OVERRIDABLE = type(flambeau.tensor)


_APPLY: Any = flambeau.autograd.Function.apply.__func__  # type: ignore[attr-defined]

# Compiled modules inside compiled functions become parts of the outer graph, so they need no guards.
_CALLS = {flambeau.nn.Module.__call__: flambeau.nn.Module._call_impl}

# Objects whose calls read attributes or items, which may run code of the program.
_GETTERS: dict[type, Any] = {
    operator.attrgetter: polyfills.attributes_of,
    operator.itemgetter: polyfills.items_of,
}

_NATIVE = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.MethodWrapperType, types.ClassMethodDescriptorType,
)  # fmt: skip


class _Mismatch(TypeError):
    """The arguments do not fit the parameters."""


@functools.cache
def _program_call() -> Any:
    from flambeau.compiler.capture.programs import Program

    return Program.__call__


def bind(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the values of a function's parameters in the order of its variables.

    >>> bind(lambda a, *rest, b=2, **more: 0, (1, 3), {"c": 4})
    [1, 2, (3,), {'c': 4}]
    """
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = names[: code.co_argcount]
    given = dict(zip(positional, args, strict=False))
    more = {}
    for name, value in kwargs.items():
        if name in names[code.co_posonlyargcount :] and name not in given:
            given[name] = value
        elif code.co_flags & 0x08 and name not in names[code.co_posonlyargcount :]:
            more[name] = value
        else:
            raise _Mismatch
    defaults = function.__defaults__ or ()
    fallback = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    fallback.update(function.__kwdefaults__ or {})
    try:
        bound = [given[name] if name in given else fallback[name] for name in names]
    except KeyError:
        raise _Mismatch from None
    if code.co_flags & 0x04:
        bound.append(tuple(args[code.co_argcount :]))
    elif len(args) > code.co_argcount:
        raise _Mismatch
    if code.co_flags & 0x08:
        bound.append(more)
    return bound


def has_python_layout(kind: type) -> bool:
    """Whether the objects of a class are allocated by `object.__new__`, even if it defines ``__new__``."""
    makers = [base.__dict__["__new__"] for base in kind.__mro__[:-1] if "__new__" in base.__dict__]
    is_python = all(isinstance(getattr(make, "__func__", make), types.FunctionType) for make in makers)
    return is_python and not kind.__flags__ & 0x100


class Calls(Builtins):
    """Calls, for instructions."""

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call a function; its result is pushed at once or when its frame returns."""
        if self.is_native:
            self.push(function(*args, **kwargs))
        elif known.SUBSTITUTES and (substitute := known.substitute_of(function)) is not None:
            self.call(substitute, args, kwargs)
        elif isinstance(function, types.MethodType):
            self._adopt_parts(function, "__func__", "__self__")
            self.call(function.__func__, (function.__self__, *args), kwargs)
        elif isinstance(function, types.FunctionType):
            self._call_python(function, args, kwargs)
        elif isinstance(function, functools.partial):
            self._adopt_parts(function, "func", "args", "keywords")
            self.call(function.func, (*function.args, *args), {**function.keywords, **kwargs})
        elif isinstance(function, _OVERRIDABLE):
            self.call_own(function, args, kwargs)
        elif isinstance(function, type):
            self._construct(function, args, kwargs)
        elif isinstance(function, _NATIVE):
            self.call_builtin(function, args, kwargs)
        else:
            self._call_object(function, args, kwargs)

    # --- Python functions -----------------------------------------------------------------------

    def _call_python(
        self, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        name = function.__name__
        if name in known.ASKS_FOR_CAPTURE and known.is_own(function):
            self.push(True)
        elif self.is_pure(function):
            self.call_pure(function, args, kwargs)
        elif function is Generator.send:
            self.resume_frame(args[0], args[1])
        elif function in (Generator.throw, Generator.close):
            raise Break(f"{name} of a generator")
        elif function is _APPLY and issubclass(args[0], flambeau.autograd.Function):
            self.recorder.fix_sizes()  # the check of new sizes would run the call again
            self.leaf("call_function", args[0].apply, args[1:], kwargs, "apply")
        elif function in known.HIGHER_ORDER:
            self._call_higher_order(function, args, kwargs)
        elif function.__dict__.get("_torchdynamo_disable"):
            raise Break(f"{function.__qualname__}, which is excluded from capture")
        elif function.__dict__.get("_torchdynamo_in_graph"):
            self.recorder.fix_sizes()
            self.leaf("call_function", function, args, kwargs, name)
        elif function.__dict__.get("_torchdynamo_constant"):
            self.push(self.tracker.keep(function(*args, **kwargs)))
        elif "_torchdynamo_orig_callable" in function.__dict__:
            self.call(function.__dict__["_torchdynamo_orig_callable"], args, kwargs)
        elif known.is_interpreted(function):
            self.enter(function, args, kwargs)
        elif known.is_own(function):
            self.call_own(function, args, kwargs)
        else:
            raise Break(f"a call of {known.module_of(function)}.{function.__qualname__}")

    def _call_higher_order(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record a call of a higher-order function as one node."""
        from flambeau.compiler.capture.attention import record_attention
        from flambeau.compiler.capture.branches import record_cond
        from flambeau.compiler.capture.loops import record_loop

        if function is cond:
            record_cond(self, args, kwargs)
        elif function is known.FLEX_ATTENTION:
            record_attention(self, args, kwargs)
        else:
            record_loop(self, function, args, kwargs)

    def enter(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        flags = function.__code__.co_flags
        if flags & _COROUTINE_FLAGS:
            raise Break(f"the coroutine {function.__qualname__}")
        if len(self.frames) > 200:
            raise Break("calls nested too deep")
        if not self.can_interpret(function.__code__):
            raise Break(f"{function.__qualname__}, which has instructions that are not interpreted")
        try:
            bound = bind(function, args, kwargs)
        except _Mismatch:
            function(*args, **kwargs)  # raises TypeError
            raise Break(f"a call of {function.__qualname__}") from None
        self._adopt_defaults(function)
        frame = Frame(function, variables(function, bound))
        if flags & _GENERATOR_FLAGS:
            self._start_generator(frame)
        else:
            self.frames.append(frame)

    def can_interpret(self, code: types.CodeType) -> bool:
        """Whether all instructions of a code object are known."""
        raise NotImplementedError

    def _adopt_defaults(self, function: types.FunctionType) -> None:
        from flambeau.compiler.capture.origins import Cell

        origin = self.tracker.origin_of_function(function)
        if origin is None:
            return
        for name in ("__defaults__", "__kwdefaults__"):
            values = getattr(function, name)
            if values and not is_constant(values):
                self.tracker.adopt(values, Attribute(origin, name))
                self.tracker.expand(values)
        for i, cell in enumerate(function.__closure__ or ()):
            self.tracker.adopt(cell, Cell(origin, i))

    def _start_generator(self, frame: Frame) -> None:
        """Run the instructions before RETURN_GENERATOR when the generator is created."""
        names = [i.name for i in frame.decoded.instructions]
        frame.ip = names.index("RETURN_GENERATOR") + 1
        for i in frame.decoded.instructions[: frame.ip - 1]:
            if i.name == "MAKE_CELL":
                value = frame.slots[i.arg]
                frame.slots[i.arg] = types.CellType() if value is UNBOUND else types.CellType(value)
        frame.stack.append(None)
        generator = Generator(frame)
        frame.generator, frame.returns = generator, Returns.RESUME
        self.push(generator)

    # --- classes and objects ----------------------------------------------------------------------

    def _construct(self, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if kind is super:
            self._make_super(args)
        elif kind in known.PURE or (
            issubclass(kind, BaseException) and kind.__init__ is BaseException.__init__
        ):
            self.call_pure(kind, args, kwargs)
        elif kind is map or kind is filter:
            one = kind is map and len(args) == 2
            poly: Any = (
                polyfills.mapped_one if one else polyfills.mapped if kind is map else polyfills.filtered
            )
            self.enter(poly, args, kwargs)
        elif issubclass(kind, flambeau.Tensor):
            self.leaf("call_function", kind, args, kwargs, kind.__name__)
        else:
            self._make_instance(kind, args, kwargs)

    def _make_super(self, args: tuple[Any, ...]) -> None:
        if args:
            self.push(super(*args))
            return
        frame = self.frame
        slots = frame.decoded.slots
        cell = frame.slots[slots.index("__class__")]
        first = frame.slots[0]
        instance = first.cell_contents if isinstance(first, types.CellType) else first
        self.push(super(cell.cell_contents, instance))

    def _make_instance(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        new, init = find(kind, "__new__")[0], find(kind, "__init__")[0]
        call = find(type(kind), "__call__")[0]
        if call is not type.__dict__["__call__"]:
            if isinstance(kind, type(flambeau.Tag)) and not kwargs:  # members of an enumeration
                self.call_pure(kind, args, kwargs, is_checked=True)
                return
            raise Break(f"a call of the class {kind.__qualname__}, which has a custom metaclass")
        if isinstance(new, staticmethod) and issubclass(kind, tuple):
            self.tracker.expand_all(args)
            self.push(kind(*args, **kwargs))
        elif new is object.__dict__["__new__"] and isinstance(init, types.FunctionType):
            instance = self.tracker.keep(object.__new__(kind))
            self.enter(init, (instance, *args), kwargs)
            self.frame.returns, self.frame.result = Returns.INSTANCE, instance
        elif new is object.__dict__["__new__"] and init is object.__dict__["__init__"]:
            self.push(self.tracker.keep(kind(*args, **kwargs)))
        elif issubclass(kind, BaseException):
            self.call_pure(kind, args, kwargs, is_checked=True)
        elif has_python_layout(kind):
            self.enter(polyfills.constructed, (kind, args, kwargs), {})
        else:
            raise Break(f"a call of the class {kind.__module__}.{kind.__qualname__}")

    def _call_object(self, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if isinstance(value, weakref.ref):
            self._follow(value)
            return
        method = find(type(value), "__call__")[0]
        if isinstance(value, Overload | OverloadPacket | CustomOpDef):
            self._call_operator(value, args, kwargs)
        elif method is _program_call():
            self.call(value.function, args, kwargs)
        elif isinstance(method, types.FunctionType):
            self._adopt_call(value)
            self.call(_CALLS.get(method, method), (value, *args), kwargs)
        elif type(value) in _GETTERS and not kwargs and len(args) == 1:
            self.call(_GETTERS[type(value)], (*args, *value.__reduce__()[1]), {})
        elif value in known.PURE or type(value) in known.PURE:
            self.call_pure(value, args, kwargs, is_checked=True)
        else:
            raise Break(f"a call of an object of type {type(value).__qualname__}")

    def _call_operator(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record a call of an operator of `ops`; an operator without results writes to its arguments."""
        self.recorder.fix_sizes()  # the function for meta tensors may be the program's own
        target = operator._opoverload if isinstance(operator, CustomOpDef) else operator
        names = [] if isinstance(target, Overload) else target.overloads()
        overload = getattr(target, names[0]) if len(names) == 1 else target
        schema = getattr(overload, "_schema", None)  # none of a packet, and of operators in Python
        if schema is not None and not schema.results and not kwargs:
            self.leaf_without_result(target, args)
            self.push(None)
        else:
            self.leaf("call_function", target, args, kwargs, target.__name__)

    def leaf_without_result(self, function: Any, args: tuple[Any, ...]) -> None:
        """Run a function for its effect on a tensor and add it to the graph."""
        raise NotImplementedError

    def _follow(self, reference: weakref.ref[Any]) -> None:
        result, origin = reference(), self.tracker.origin_of(reference)
        if origin is not None:
            self.tracker.adopt(result, Referent(origin))
        self.push(result)

    def _adopt_parts(self, function: Any, *names: str) -> None:
        """Note where the parts of a method or partial function come from."""
        origin = self.tracker.origin_of(function)
        for name in names:
            part = getattr(function, name)
            if origin is not None:
                self.tracker.adopt(part, Attribute(origin, name))
            if isinstance(part, tuple | dict):
                self.tracker.expand(part)

    def _adopt_call(self, value: Any) -> None:
        found, owner = find(type(value), "__call__")
        if owner is not None:
            self._adopt_of_class(owner, "__call__", found)
