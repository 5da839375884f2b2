"""Calls of functions written in C: methods of tensors, builtin functions, methods of containers."""

from __future__ import annotations

import functools
import itertools
import types
from typing import Any

import flambeau
from flambeau.compiler.capture import known, polyfills
from flambeau.compiler.capture.attributes import Attributes, find, instance_dict
from flambeau.compiler.capture.base import Break
from flambeau.compiler.capture.frames import Generator, Returns
from flambeau.compiler.capture.origins import Attribute, Gradient
from flambeau.compiler.capture.recording import has_tensor
from flambeau.compiler.symbolic.numbers import (
    MOVES,
    MOVING_METHODS,
    PLACING_METHODS,
    fixed,
    holds_tracked,
    is_arithmetic,
    plain,
)

_PYTHON = (types.FunctionType, types.MethodType, functools.partial)
_BUILTIN_ITERABLES = (list, tuple, dict, set, frozenset, str, bytes, range)


class Builtins(Attributes):
    """Calls into C code."""

    def resume_frame(self, generator: Generator, value: Any) -> None:
        """Continue a generator as the innermost frame."""
        raise NotImplementedError

    def call_own(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call a function of the package: record it as one node, or as a constant that guards ensure."""
        name = getattr(function, "__name__", type(function).__name__)
        if name in known.CONSTANT:
            self.tracker.expand_all([*args, *kwargs.values()])
            value = function(*plain(args), **plain(kwargs))
            self.push(self.recorder.number("call_function", function, args, kwargs, value))
        elif name in known.STATE:
            args = fixed(args)
            result = function(*args, **kwargs)
            self.recorder.state_call(function, args)
            self.push(result)
        else:
            if function is flambeau._C._with_gradients:
                self._guard_gradients(args[0])
            self.leaf("call_function", function, args, kwargs, name)

    def _guard_gradients(self, tensors: list[flambeau.Tensor]) -> None:
        """Guard which tensors of a list have a gradient, and of what kind."""
        self.tracker.expand(tensors)
        for tensor in tensors:
            origin = self.tracker.origin_of(tensor)
            if origin is not None:
                self.tracker.guard_value(tensor.grad, Gradient(origin))

    # --- builtin functions ------------------------------------------------------------------------

    def call_builtin(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        owner = getattr(function, "__self__", None)
        name = function.__name__
        if isinstance(owner, flambeau.Tensor):
            self._call_method(name, (owner, *args), kwargs)
        elif isinstance(getattr(function, "__objclass__", None), type) and args and isinstance(
            args[0], flambeau.Tensor
        ):  # fmt: skip
            self._call_method(name, args, kwargs)
        elif known.is_own(function):
            self.call_own(function, args, kwargs)
        elif self.is_pure(function):
            self.call_pure(function, args, kwargs)
        elif function is setattr and len(args) == 3 and not kwargs:
            self._set_attribute(args)
        elif not isinstance(function, types.BuiltinFunctionType | types.MethodWrapperType) and args:
            self._call_method_of(function.__objclass__, name, function, args[0], args, kwargs)
        elif owner is not None and not isinstance(owner, types.ModuleType):
            self._call_method_of(type(owner), name, function, owner, args, kwargs)
        else:
            raise Break(f"a call of {known.module_of(function)}.{name}")

    def is_pure(self, function: Any) -> bool:
        try:
            return function in known.PURE
        except TypeError:
            return False

    def _call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call a method of a tensor."""
        if name in known.METADATA:
            self.require_known(args[0], name)
            if any(isinstance(a, flambeau.Tensor) for a in args[1:]) or (name == "type" and len(args) > 1):
                self.leaf("call_method", name, args, kwargs, name)
            else:
                self._call_metadata(name, args, kwargs)
        else:
            self.leaf("call_method", name, args, kwargs, name)

    def _call_metadata(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        value = getattr(type(args[0]), name)(*plain(args), **plain(kwargs))
        if self.recorder.sized and name in known.SIZED:
            whole = name in ("size", "stride") and isinstance(value, tuple)
            value = (
                self.recorder.metadata(args[0], name, value)
                if whole
                else self.recorder.number("call_method", name, args, kwargs, value)
            )
        self.push(value)

    def _call_method_of(
        self, kind: type, name: str, function: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Call a method of a builtin class other than Tensor."""
        base = next((b for b in known.MUTATORS if issubclass(kind, b)), None)
        if self.recorder.journal.numbers and not (name in MOVING_METHODS and (base or kind is object)):
            if name in PLACING_METHODS and issubclass(kind, list | tuple):
                args = tuple(fixed(a) if isinstance(a, int | slice) else a for a in args)
            else:
                args, kwargs = fixed(args), fixed(kwargs)
        values = (*args, *kwargs.values())
        if isinstance(owner, Generator) or any(isinstance(v, Generator) for v in values):
            self._call_with_generator(function, name, owner, args, kwargs)
            return
        if base is not None:
            if has_tensor(list(values)) and name in ("remove", "index", "count", "__eq__", "__contains__"):
                raise Break(f"{kind.__name__}.{name}, which compares tensors")
            (self.tracker.mutate if name in known.MUTATORS[base] else self.tracker.expand)(owner)
        elif not (kind in known.PURE_OWNERS or issubclass(kind, BaseException) or kind is object):
            if (
                name == "__next__"
                and self.tracker.origin_of(owner) is None
                and self._is_builtin_iterator(owner)
            ):
                self.push(function(*args, **kwargs))
                return
            raise Break(f"a call of {kind.__name__}.{name}")
        if name == "__setattr__" and kind is object:
            self.tracker.write(owner, args[-2])
        if name in known.ITERATES:
            self._check_iterable_arguments(args[1:] if args and args[0] is owner else args)
        self.tracker.expand_all(values)
        self.push(function(*args, **kwargs))

    def _is_builtin_iterator(self, value: Any) -> bool:
        return type(value).__module__ in ("builtins", "itertools") and hasattr(value, "__next__")

    def _check_iterable_arguments(self, values: tuple[Any, ...]) -> None:
        for value in values:
            if self.needs_python(value) and not isinstance(value, _BUILTIN_ITERABLES):
                raise Break(f"a builtin method that iterates over {type(value).__qualname__}")

    def _call_with_generator(self, function: Any, name: str, owner: Any, args: Any, kwargs: Any) -> None:
        if isinstance(owner, list) and name == "extend" and len(args) == 1:
            self.tracker.mutate(owner)
            self.push(None)
            self.enter(polyfills.extended, (owner, args[0]), {})
            self.frame.returns = Returns.DISCARD
        elif isinstance(owner, str) and name == "join":
            self.enter(polyfills.collected, (owner.join, args[0]), {})
        else:
            raise Break(f"a call of {name} with a generator")

    # --- functions without effects ----------------------------------------------------------------

    def call_pure(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], is_checked: bool = False
    ) -> None:
        if self.recorder.journal.numbers:
            if self._is_of_numbers(function, args, kwargs):
                return
            if function not in MOVES:
                args, kwargs = fixed(args), fixed(kwargs)
        if not is_checked and self._replaced(function, args, kwargs):
            return
        values = (*args, *kwargs.values())
        if function is len or function is bool:
            for value in values:
                self.tracker.expand(value)
        elif function not in (isinstance, issubclass, type, iter, object, callable):
            self.tracker.expand_all(values)
        self.push(self.tracker.keep(function(*args, **kwargs)))

    def _is_of_numbers(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Push the result of a call with tracked numbers; return False if the call needs plain numbers."""
        if not holds_tracked(args):
            return False
        if function in (isinstance, type, callable):
            self.push(function(plain(args[0]), *args[1:]))
        elif function is flambeau.Size and len(args) == 1 and isinstance(args[0], list | tuple):
            self.push(tuple.__new__(flambeau.Size, args[0]))
        elif is_arithmetic(function, args, kwargs):
            value = function(*plain(args))
            self.push(self.recorder.number("call_function", function, args, kwargs, value))
        else:
            return False
        return True

    def _replaced(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Interpret a Python equivalent of a builtin that would call Python code or read tensors."""
        if not args:
            return False
        first = args[0]
        if self._replaced_by_protocol(function, args, kwargs):
            return True
        is_python = isinstance(first, Generator) or isinstance(
            find(type(first), "__iter__")[0], types.FunctionType
        )
        if function is iter and len(args) == 1:
            return self.iterate(first)
        if function is next:
            return self._next(first, args)
        if function in (any, all, sum):
            poly = {any: polyfills.any_of, all: polyfills.all_of, sum: polyfills.sum_of}[function]
            self.enter(poly, args, kwargs)
            return True
        is_python_key = isinstance(
            kwargs.get("key"), types.FunctionType | types.MethodType | functools.partial
        )
        if function in (sorted, min, max) and is_python_key:
            if function is sorted:
                self.enter(polyfills.ordered, args, kwargs)
            elif len(args) == 1 and set(kwargs) == {"key"}:
                self.enter(polyfills.extreme, (function, first, kwargs["key"]), {})
            else:
                raise Break(f"{function.__name__} with a key and other arguments")
            return True
        if function is functools.reduce:
            self.enter(polyfills.reduced, args, kwargs)
            return True
        if function in (enumerate, zip) and any(self.needs_python(value) for value in args):
            self.enter(polyfills.enumerated if function is enumerate else polyfills.zipped, args, {})
            return True
        if is_python and function in (list, tuple, set, frozenset, dict, sorted, min, max) and not kwargs:
            if len(args) != 1:
                return False
            self.enter(polyfills.collected, (function, first), {})
            return True
        return False

    def _next(self, iterator: Any, args: tuple[Any, ...]) -> bool:
        if len(args) == 2:
            self.enter(polyfills.next_or, args, {})
        elif isinstance(iterator, Generator):
            self.resume_frame(iterator, None)
        elif isinstance(find(type(iterator), "__next__")[0], types.FunctionType):
            self.call(find(type(iterator), "__next__")[0], (iterator,), {})
        elif self.tracker.origin_of(iterator) is not None:
            raise Break("next of an iterator that existed before")
        else:
            self.push(next(iterator))
        return True

    def _set_attribute(self, args: tuple[Any, ...]) -> None:
        """``setattr``: push its result first, below the frame of a setter in Python."""
        depth = len(self.frames)
        self.push(None)
        try:
            self.store_attribute(args[0], args[1], args[2])
        except Break:
            del self.frames[depth:]
            self.pop()
            raise

    def needs_python(self, value: Any) -> bool:
        return isinstance(value, Generator) or isinstance(
            find(type(value), "__iter__")[0], types.FunctionType
        )

    def _replaced_by_protocol(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        first = args[0]
        if isinstance(first, flambeau.Tensor):
            return self._builtin_of_tensor(function, args)
        if function is getattr and isinstance(args[1], str):
            if len(args) == 3 and not hasattr(first, args[1]):
                self._guard_lack(first, args[1])
                self.push(args[2])
            else:
                self.load_attribute(first, args[1])
            return True
        if function is hasattr:
            self._has_attribute(first, args[1])
            return True
        protocol = {len: "__len__", bool: "__bool__", abs: "__abs__", int: "__int__", float: "__float__",
                    hash: "__hash__", repr: "__repr__", str: "__str__", reversed: "__reversed__",
                    round: "__round__"}.get(function)  # fmt: skip
        method = find(type(first), protocol)[0] if protocol else None
        if isinstance(method, types.FunctionType) and not kwargs:
            self.call(method, args, {})
            return True
        if function in (getattr, isinstance, type) or not any(map(has_tensor, args)):
            return False
        if function in (min, max, str, repr, format, hash, print, set, frozenset) and has_tensor(list(args)):
            raise Break(f"{function.__name__} of tensors")
        return False

    def _builtin_of_tensor(self, function: Any, args: tuple[Any, ...]) -> bool:
        first = args[0]
        if function in (isinstance, type, callable):
            return False
        if function is hasattr:
            self.push(hasattr(first, args[1]))
        elif function is getattr and (len(args) == 2 or hasattr(first, args[1])):
            self.load_attribute(first, args[1])
        elif function is getattr:
            self._guard_lack(first, args[1])
            self.push(args[2])
        elif function is len:
            self.require_known(first)
            self.push(self.recorder.number("call_method", "size", (first, 0), {}, len(first)))
        elif function is iter:
            self.iterate(first)
        elif function in (list, tuple):
            self.enter(polyfills.collected, (function, first), {})
        elif function is abs:
            self.leaf("call_function", abs, args, {}, "abs")
        elif known.module_of(function) == "_operator" or function in (pow, divmod, round, reversed):
            self.leaf("call_function", function, args, {}, function.__name__)
        else:
            raise Break(f"{getattr(function, '__name__', function)} of a tensor")
        return True

    def _guard_lack(self, value: Any, name: str) -> None:
        found, owner = find(type(value), name)
        self._guard_lack_of_bases(type(value), name, owner)
        if owner is not None:
            self._adopt_of_class(owner, name, found)
        if instance_dict(value) is not None:
            self._guard_absent(value, name)

    def _has_attribute(self, value: Any, name: str) -> None:
        own = instance_dict(value)
        if isinstance(find(type(value), "__getattr__")[0], types.FunctionType) and not isinstance(
            value, flambeau.nn.Module
        ):  # fmt: skip
            raise Break(f"hasattr of {type(value).__qualname__}, which computes attributes")
        result = hasattr(value, name)
        if own is None or name not in own:
            self._guard_lack(value, name)
        elif self.tracker.origin_of(value) is not None and not self.tracker.is_written(value, name):
            origin = self.tracker.origin_of(value)
            assert origin is not None
            self.tracker.adopt(own[name], Attribute(origin, name))
        self.push(result)

    def iterate(self, value: Any) -> bool:
        """Push an iterator over any value."""
        if isinstance(value, Generator):
            self.push(value)
        elif isinstance(value, flambeau.Tensor):
            self.require_known(value)
            self.leaf("call_method", "unbind", (value, 0), {}, "unbind")
            self.push(iter(self.pop()))
        elif isinstance(find(type(value), "__iter__")[0], types.FunctionType):
            self.call(find(type(value), "__iter__")[0], (value,), {})
        elif isinstance(find(type(value), "__getitem__")[0], types.FunctionType) and not hasattr(
            value, "__iter__"
        ):
            self.enter(polyfills.iterated, (value,), {})
        else:
            self.tracker.expand(value)
            if self._is_builtin_iterator(value) or isinstance(value, itertools.chain):
                self.push(value)
            else:
                self.push(self.tracker.keep(iter(value)))
        return True
