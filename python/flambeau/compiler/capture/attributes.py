"""Attributes: reads, which add origins and guards, and writes, which are noted for the segment's end."""

from __future__ import annotations

import functools
import types
from typing import Any

import flambeau
from flambeau.compiler.capture import known, polyfills
from flambeau.compiler.capture.base import Break, Core
from flambeau.compiler.capture.guards import Check
from flambeau.compiler.capture.origins import Attribute, Constant, Gradient, Item
from flambeau.compiler.capture.tracker import IDENTICAL

_MISSING = object()
_MODULE_TABLES = ("_parameters", "_buffers", "_modules")


def find(kind: type, name: str) -> tuple[Any, type | None]:
    """Return an attribute as it stands in the dict of a class, and the class in the MRO that has it."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name], base
    return _MISSING, None


def instance_dict(value: Any) -> dict[str, Any] | None:
    """Return the dict of an object's own attributes; None if it has none."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return own if isinstance(own, dict) else None


class Attributes(Core):
    """Access to attributes, for instructions."""

    def load_attribute(self, value: Any, name: str) -> None:
        """Push an attribute, at once or when the Python function that computes it returns."""
        if self.is_native:
            self.push(getattr(value, name))
        elif isinstance(value, flambeau.Tensor):
            self._load_of_tensor(value, name)
        elif isinstance(value, super):
            self._load_of_super(value, name)
        elif isinstance(value, types.ModuleType):
            self._load_plain(value, name)
        elif isinstance(value, type):
            self._load_of_class(value, name)
        else:
            self._load_of_object(value, name)

    def _read(self, value: Any, name: str, result: Any) -> None:
        """Push what an attribute of the object holds, with its origin."""
        origin = self.tracker.origin_of(value)
        if origin is not None and not self.tracker.is_written(value, name):
            self.tracker.adopt(result, Attribute(origin, name))
        self.push(result)

    def _load_plain(self, value: Any, name: str) -> None:
        result = getattr(value, name)
        is_of_package = isinstance(value, types.ModuleType) and known.is_own_module(value)
        # A program may replace functions of the package, but not the names that the package reads itself.
        if is_of_package and (known.is_own(self.frame.function) or not isinstance(result, IDENTICAL)):
            self.push(result)
        else:
            self._read(value, name, result)

    def _load_of_tensor(self, value: flambeau.Tensor, name: str) -> None:
        if name in known.METADATA:
            self.require_known(value, name)
            found = getattr(value, name)
            self.push(self.recorder.metadata(value, name, found) if self.recorder.sized else found)
        elif name in known.TENSOR_ATTRIBUTES:
            self.leaf("call_function", getattr, (value, name), {}, name)
        elif name == "grad":
            self._load_gradient(value)
        elif name in (instance_dict(value) or {}):
            self._read(value, name, getattr(value, name))
        elif name in ("grad_fn", "_version", "_grad", "_base", "volatile"):
            raise Break(f"the attribute {name} of a tensor, which a graph cannot hold")
        else:
            self.push(getattr(value, name))  # a method, whose calls become nodes

    def _load_gradient(self, value: flambeau.Tensor) -> None:
        origin = self.tracker.origin_of(value)
        if origin is None:
            raise Break("the gradient of a tensor that the graph computes")
        gradient = value.grad
        if not self.tracker.is_written(value, "grad"):
            self.tracker.adopt(gradient, Gradient(origin))
        self.push(gradient)

    def _load_of_super(self, value: Any, name: str) -> None:
        instance, kind = value.__self__, value.__self_class__
        bases = kind.__mro__[kind.__mro__.index(value.__thisclass__) + 1 :]
        for base in bases:
            self._guard_lack_of_class(base, name)
            if name in base.__dict__:
                found = base.__dict__[name]
                self._adopt_of_class(base, name, found)
                if isinstance(found, property) and isinstance(found.fget, types.FunctionType):
                    self.call(found.fget, (instance,), {})
                    return
                break
        self.push(getattr(value, name))

    def _load_of_class(self, value: type, name: str) -> None:
        if isinstance(find(type(value), name)[0], property):
            raise Break(f"the property {name} of a class")
        found, owner = find(value, name)
        result = getattr(value, name)
        self._guard_lack_of_bases(value, name, owner)
        if owner is not None:
            self._adopt_of_class(owner, name, found)
            if result is not found and not callable(result) and not self.tracker.origin_of(result):
                self.tracker.keep(result)
        self.push(result)

    def _adopt_of_class(self, owner: type, name: str, found: Any) -> None:
        """Guard an attribute of a program's class; builtin classes and most of flambeau's do not change."""
        changes = (known.module_of(owner), f"{owner.__qualname__}.{name}") in known.CHANGING
        if not changes and (known.is_own(owner) or owner.__module__ == "builtins"):
            return
        place = self.tracker.constant(owner)
        origin = Item(Attribute(Constant(place, owner.__qualname__), "__dict__"), name)
        if not self.tracker.is_written(owner, name):
            self.tracker.adopt(found, origin)

    def _guard_lack_of_bases(self, kind: type, name: str, owner: type | None) -> None:
        """Guard that the classes before `owner` in the MRO have no such attribute."""
        for base in kind.__mro__:
            if base is owner:
                return
            self._guard_lack_of_class(base, name)

    def _guard_lack_of_class(self, base: type, name: str) -> None:
        is_fixed = known.is_own(base) or base.__module__ == "builtins"
        if not is_fixed and name not in base.__dict__:
            place = self.tracker.constant(base)
            self.tracker.guard(Constant(place, base.__qualname__), Check.ABSENT, name)

    def _load_of_object(self, value: Any, name: str) -> None:
        kind = type(value)
        getter = find(kind, "__getattribute__")[0]
        if isinstance(getter, types.FunctionType):
            self.call(getter, (value, name), {})
            return
        found, owner = find(kind, name)
        if isinstance(found, property):
            self._guard_lack_of_bases(kind, name, owner)
            if owner is not None:
                self._adopt_of_class(owner, name, found)
            self._load_property(value, name, found)
            return
        own = instance_dict(value)
        is_data = found is not _MISSING and hasattr(type(found), "__set__")
        if is_data:
            self._read(value, name, getattr(value, name))
        elif own is not None and name in own:
            self._read(value, name, own[name])
        elif found is not _MISSING:
            self._load_from_class(value, name, found, owner)
        else:
            self._load_missing(value, name)

    def _load_property(self, value: Any, name: str, found: property) -> None:
        if isinstance(found.fget, types.FunctionType) and known.is_interpreted(found.fget):
            self.call(found.fget, (value,), {})
        else:
            self._read(value, name, getattr(value, name))

    def _load_from_class(self, value: Any, name: str, found: Any, owner: Any) -> None:
        self._guard_absent(value, name)
        self._guard_lack_of_bases(type(value), name, owner)
        self._adopt_of_class(owner, name, found)
        if isinstance(found, types.FunctionType):
            self.push(types.MethodType(found, value))
        elif isinstance(found, functools.cached_property):
            self.call(polyfills.cached, (value, found.func, name), {})
            self.tracker.write(value, name)
        elif isinstance(find(type(found), "__get__")[0], types.FunctionType):
            self.call(types.MethodType(type(found).__get__, found), (value, type(value)), {})
        elif hasattr(type(found), "__get__"):
            self.push(getattr(value, name))
        else:
            self.push(found)

    def _guard_absent(self, value: Any, name: str) -> None:
        origin = self.tracker.origin_of(value)
        if origin is None or instance_dict(value) is None or self.tracker.is_written(value, name):
            return
        if not known.is_own(type(value)) or isinstance(value, flambeau.nn.Module):
            self.tracker.guard(origin, Check.ABSENT, name)

    def _load_missing(self, value: Any, name: str) -> None:
        self._guard_lack_of_bases(type(value), name, None)
        if isinstance(value, flambeau.nn.Module):
            own = value.__dict__
            for table in _MODULE_TABLES:
                if name in own.get(table, ()):
                    self._load_of_module(value, table, name)
                    return
        getter = find(type(value), "__getattr__")[0]
        if isinstance(getter, types.FunctionType) and known.is_interpreted(getter):
            self.call(getter, (value, name), {})
        else:
            self.push(getattr(value, name))

    def _load_of_module(self, value: Any, table: str, name: str) -> None:
        entries = value.__dict__[table]
        origin = self.tracker.origin_of(value)
        if origin is not None and not self.tracker.is_written(value, name):
            self.tracker.adopt(entries, Attribute(origin, table))
            if id(entries) not in self.tracker.mutated:
                self.tracker.adopt(entries[name], Item(Attribute(origin, table), name))
        self.push(entries[name])

    # --- writes -------------------------------------------------------------------------------------

    def store_attribute(self, value: Any, name: str, new: Any) -> None:
        """Set an attribute, at once or by interpreting the class's setter."""
        if self.is_native:
            setattr(value, name, new)
            return
        if isinstance(value, flambeau.Tensor):
            self._store_of_tensor(value, name, new)
            return
        if isinstance(value, type | types.ModuleType):
            raise Break(f"a write to the attribute {name} of a class or module")
        setter = find(type(value), "__setattr__")[0]
        if isinstance(value, flambeau.nn.Module):
            self._store_of_module(value, name, new)
            return
        if isinstance(setter, types.FunctionType):
            self.call_and_drop(setter, (value, name, new))
            return
        found = find(type(value), name)[0]
        if isinstance(found, property):
            if not isinstance(found.fset, types.FunctionType):
                raise Break(f"the property {name}")
            self.call_and_drop(found.fset, (value, new))
            return
        self.tracker.write(value, name)
        setattr(value, name, new)

    def _store_of_module(self, value: Any, name: str, new: Any) -> None:
        is_state = isinstance(new, flambeau.nn.Parameter | flambeau.nn.Module)
        is_listed = any(name in value.__dict__.get(table, ()) for table in _MODULE_TABLES)
        found = find(type(value), name)[0]
        is_plain = found is _MISSING or not hasattr(type(found), "__set__")
        if is_state or not is_plain or (is_listed and name not in value.__dict__.get("_buffers", ())):
            raise Break(f"an assignment of {type(new).__name__} to the attribute {name} of a module")
        if is_listed:
            buffers = value.__dict__["_buffers"]
            origin = self.tracker.origin_of(value)
            if origin is not None:
                self.tracker.adopt(buffers, Attribute(origin, "_buffers"))
            self.tracker.mutate(buffers)
        self.tracker.write(value, name)
        setattr(value, name, new)

    def _store_of_tensor(self, value: flambeau.Tensor, name: str, new: Any) -> None:
        if name not in (instance_dict(value) or {}) and hasattr(type(value), name):
            raise Break(f"a write to the attribute {name} of a tensor")
        self.tracker.write(value, name)
        setattr(value, name, new)

    def delete_attribute(self, value: Any, name: str) -> None:
        """Delete an attribute."""
        if not self.is_native:
            if isinstance(value, type | types.ModuleType | flambeau.Tensor | flambeau.nn.Module):
                raise Break(f"the deletion of the attribute {name}")
            if isinstance(find(type(value), "__delattr__")[0], types.FunctionType):
                raise Break(f"the deletion of the attribute {name} by Python code")
            self.tracker.write(value, name)
        delattr(value, name)
