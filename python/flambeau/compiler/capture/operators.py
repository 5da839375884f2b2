"""Operators of Python: arithmetic, comparison, truth, elements."""

from __future__ import annotations

import operator
import types
from typing import Any

import flambeau
from flambeau.compiler.capture import polyfills
from flambeau.compiler.capture.attributes import find
from flambeau.compiler.capture.base import Break
from flambeau.compiler.capture.calls import Calls
from flambeau.compiler.capture.recording import has_tensor
from flambeau.compiler.capture.tracker import SEQUENCES
from flambeau.compiler.symbolic.numbers import fixed, is_arithmetic, is_tracked, plain

BINARY: dict[str, Any] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul,
    "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor, "<<=": operator.ilshift,
    ">>=": operator.irshift,
}  # fmt: skip
COMPARISONS: dict[str, Any] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_NAMES = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
    "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
    "<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge",
}  # fmt: skip
_REFLECTED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
UNARY: dict[str, tuple[Any, str]] = {
    "UNARY_NEGATIVE": (operator.neg, "__neg__"),
    "UNARY_POSITIVE": (operator.pos, "__pos__"),
    "UNARY_INVERT": (operator.invert, "__invert__"),
}


def _is_python(value: Any, name: str) -> bool:
    return isinstance(find(type(value), name)[0], types.FunctionType)


class Operators(Calls):
    """Operators, with tensors as nodes of the graph."""

    def binary(self, symbol: str, a: Any, b: Any) -> None:
        """Push the result of a binary operator."""
        function = BINARY.get(symbol) or COMPARISONS[symbol]
        if self.is_native:
            self.push(function(a, b))
        elif isinstance(a, flambeau.Tensor) or isinstance(b, flambeau.Tensor):
            self._binary_of_tensors(symbol, function, a, b)
        elif self.recorder.journal.numbers and (is_tracked(a) or is_tracked(b)):
            self._binary_of_numbers(symbol, function, a, b)
        else:
            self._binary_of_objects(symbol, function, a, b)

    def _binary_of_tensors(self, symbol: str, function: Any, a: Any, b: Any) -> None:
        if isinstance(a, list | tuple) and symbol in ("==", "!="):
            raise Break("a comparison of a sequence and a tensor")
        self.leaf("call_function", function, (a, b), {}, function.__name__)

    def _binary_of_objects(self, symbol: str, function: Any, a: Any, b: Any) -> None:
        name = _NAMES[symbol.removesuffix("=") if symbol in BINARY else symbol]
        forward, reflected = f"__{name}__", f"__{_REFLECTED.get(name, 'r' + name)}__"
        in_place = f"__i{name}__"
        if symbol in BINARY and symbol.endswith("=") and _is_python(a, in_place):
            self.call(find(type(a), in_place)[0], (a, b), {})
            return
        if _is_python(a, forward) or _is_python(b, reflected):
            self.enter(polyfills.binary, (a, b, forward, reflected), {})
            return
        if symbol in COMPARISONS and (has_tensor(a) or has_tensor(b)):
            raise Break("a comparison of containers of tensors")
        if symbol.endswith("=") and symbol in BINARY:
            self.tracker.mutate(a)
        self.tracker.expand_all((a, b))
        self.push(self.tracker.keep(function(a, b)))

    def _binary_of_numbers(self, symbol: str, function: Any, a: Any, b: Any) -> None:
        """Record arithmetic of tracked numbers as nodes, and the result of a comparison as a fact."""
        if is_arithmetic(function, (a, b), {}) or (symbol in COMPARISONS and _are_numbers(a, b)):
            value = function(plain(a), plain(b))
            self.push(self.recorder.number("call_function", function, (a, b), {}, value))
        else:
            self._binary_of_objects(symbol, function, fixed(a), fixed(b))

    def unary(self, name: str, value: Any) -> None:
        """Push the result of a unary operator."""
        function, method = UNARY[name]
        if not self.is_native and isinstance(value, flambeau.Tensor):
            self.leaf("call_function", function, (value,), {}, function.__name__)
        elif not self.is_native and is_tracked(value):
            self.push(self.recorder.number("call_function", function, (value,), {}, function(plain(value))))
        elif not self.is_native and _is_python(value, method):
            self.call(find(type(value), method)[0], (value,), {})
        else:
            self.push(function(value))

    def truth(self, value: Any) -> bool | None:
        """Return the truth of a value; None if a Python method of its class computes and pushes it."""
        if self.is_native:
            return bool(value)
        if isinstance(value, flambeau.Tensor):
            raise Break("a branch on the value of a tensor")
        if is_tracked(value):
            return bool(self.recorder.number("call_function", bool, (value,), {}, bool(plain(value))))
        for method in ("__bool__", "__len__"):
            found = find(type(value), method)[0]
            if isinstance(found, types.FunctionType):
                self.pop()
                self.call(found, (value,), {})
                return None
            if method in ("__bool__",) and hasattr(type(value), method):
                break
        self.tracker.expand(value)
        return bool(value)

    # --- elements -----------------------------------------------------------------------------------

    def load_item(self, value: Any, key: Any) -> None:
        """Push an element."""
        if self.is_native:
            self.push(value[key])
            return
        if self.recorder.journal.numbers and not isinstance(value, flambeau.Tensor):
            key = fixed(key)
        if isinstance(value, flambeau.Tensor):
            self.leaf("call_function", operator.getitem, (value, key), {}, "getitem")
        elif _is_python(value, "__getitem__"):
            self._adopt_method(value, "__getitem__")
            self.call(find(type(value), "__getitem__")[0], (value, key), {})
        else:
            if has_tensor(key):
                raise Break("a tensor as an index of a container")
            is_builtin = isinstance(
                value, dict | str | bytes | range | type | types.GenericAlias | types.MappingProxyType
            )
            if not is_builtin and not isinstance(value, SEQUENCES) and not _is_typing(value):
                raise Break(f"an element of {type(value).__qualname__}")
            if isinstance(value, dict) and _is_python(value, "__missing__") and key not in value:
                raise Break(f"a missing element of {type(value).__qualname__}")
            if type(value).__name__ == "defaultdict" and key not in value:
                self._fill_default(value, key)
                return
            self.tracker.expand(value)
            self.push(value[key])

    def _fill_default(self, value: Any, key: Any) -> None:
        if value.default_factory not in (list, dict, int, float, set, str, tuple):
            raise Break("a missing element of a defaultdict")
        self.tracker.mutate(value)
        self.push(value[key])

    def _adopt_method(self, value: Any, name: str) -> None:
        found, owner = find(type(value), name)
        if owner is not None:
            self._adopt_of_class(owner, name, found)

    def store_item(self, value: Any, key: Any, new: Any) -> None:
        """Set an element."""
        if self.is_native:
            value[key] = new
        elif isinstance(value, flambeau.Tensor):
            self.leaf_without_result(operator.setitem, (value, key, new))
        elif _is_python(value, "__setitem__"):
            self._adopt_method(value, "__setitem__")
            self.call_and_drop(find(type(value), "__setitem__")[0], (value, key, new))
        elif isinstance(value, list | dict):
            self.tracker.mutate(value)
            value[fixed(key)] = new
        else:
            raise Break(f"a write to an element of {type(value).__qualname__}")

    def leaf_without_result(self, function: Any, args: tuple[Any, ...]) -> None:
        """Run a function for its effect on a tensor and add it to the graph."""
        from flambeau.compiler.capture.recording import Unrecordable

        try:
            given, named = self.recorder.arguments(args, {})
        except Unrecordable as error:
            raise Break(f"{function.__name__} with {error}") from None
        self.run_leaf("call_function", function, args, {}, function.__name__)
        self.recorder.record("call_function", function, given, named, None, self.where())
        self.recorder.has_effects = True

    def delete_item(self, value: Any, key: Any) -> None:
        """Delete an element."""
        if self.is_native:
            del value[key]
        elif _is_python(value, "__delitem__"):
            self.call_and_drop(find(type(value), "__delitem__")[0], (value, key))
        elif isinstance(value, list | dict):
            self.tracker.mutate(value)
            del value[fixed(key)]
        else:
            raise Break(f"the deletion of an element of {type(value).__qualname__}")

    def contains(self, wanted: Any, values: Any, is_inverted: bool) -> None:
        """Push whether a container contains a value."""
        if self.is_native:
            self.push((wanted in values) is not is_inverted)
        elif _is_python(values, "__contains__"):
            self._adopt_method(values, "__contains__")
            self.enter(polyfills.lacks if is_inverted else polyfills.holds, (values, wanted), {})
        elif isinstance(values, flambeau.Tensor):
            raise Break("a search in a tensor")
        elif isinstance(values, list | tuple) and (has_tensor(values) or isinstance(wanted, flambeau.Tensor)):
            if any(wanted is value for value in values):
                self.tracker.expand(values)
                self.push(not is_inverted)
            else:
                raise Break("a comparison of tensors in a container")
        else:
            self.tracker.expand(values)
            self.push((fixed(wanted) in fixed(values)) is not is_inverted)


def _are_numbers(a: Any, b: Any) -> bool:
    return isinstance(a, int | float) and isinstance(b, int | float)


def _is_typing(value: Any) -> bool:
    return type(value).__module__ in ("typing", "types")
