"""Classes that libraries in C++ register by ``torch::class_``: ``classes.<namespace>.<name>``."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

from flambeau import _C
from flambeau._arguments.schemas import Parameter, bind, parameters_of

loaded_libraries: set[str] = set()

_PREFIX = "__torch__.torch.classes."


class _Method:
    """A method of C++, not bound to an object."""

    def __init__(self, owner: str, name: str, schema: str) -> None:
        self.owner, self.name, self.schema = owner, name, schema
        self.parameters: tuple[Parameter, ...] = parameters_of(schema)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the method; RuntimeError for arguments that its schema does not take."""
        result = _C._call_custom_method(self.owner, self.name, args, kwargs)
        if result is NotImplemented:
            who = f"{self.owner.removeprefix(_PREFIX)}.{self.name}"
            bind(who, self.parameters, {}, args, kwargs)
            raise RuntimeError(f"{who}: expected arguments that fit {self.schema}, got others")
        return result


class _Description:
    """What C++ has registered for one class."""

    def __init__(self, name: str, doc: str, methods: Any, properties: Any) -> None:
        self.name, self.doc = name, doc
        self.methods = {m: _Method(name, m, schema) for m, schema, is_static in methods if not is_static}
        self.static = {m: _Method(name, m, schema) for m, schema, is_static in methods if is_static}
        self.properties = {p: (getter, setter) for p, getter, setter in properties}


@cache
def _described(name: str) -> _Description:
    found = _C._custom_class(name)
    if found is None:
        raise RuntimeError(
            f"classes: expected a registered class, got '{name.removeprefix(_PREFIX)}', which does not "
            "exist; register it by torch::class_ and load its library"
        )
    return _Description(name, *found)


class _BoundMethod:
    """A method of C++ of one object, or a static one."""

    __slots__ = ("_method", "_objects")

    def __init__(self, method: _Method, objects: tuple[Any, ...] = ()) -> None:
        self._method, self._objects = method, objects

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._method.call((*self._objects, *args), kwargs)

    @property
    def __name__(self) -> str:
        return self._method.name

    @property
    def schema(self) -> str:
        """The method's schema."""
        return self._method.schema

    def __repr__(self) -> str:
        return f"<method {self._method.schema}>"


class ScriptObject(_C._CustomObject):
    """An object of a class of C++; `classes` makes them.

    Methods and properties are those that the class has registered. Operators whose schemas name the class
    take and return such objects. They are pickled and copied by the functions of ``def_pickle``.
    """

    __slots__ = ()

    def _type_name(self) -> str:
        return str(_C._custom_class_name(self))

    def _described(self) -> _Description:
        return _described(self._type_name())

    def __getattr__(self, name: str) -> Any:
        described = self._described()
        if name in described.properties:
            return described.methods[described.properties[name][0]].call((self,), {})
        if name in described.methods:
            return _BoundMethod(described.methods[name], (self,))
        raise AttributeError(f"'{described.name}' object has no attribute or method '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        described = self._described()
        setter = described.properties.get(name, ("", ""))[1]
        if not setter:
            kind = "a read-only property" if name in described.properties else "no attribute"
            raise RuntimeError(
                f"classes: '{described.name}' object: can't set attribute: expected a property that can "
                f"be written, got {kind} '{name}'"
            )
        described.methods[setter].call((self, value), {})

    def __dir__(self) -> list[str]:
        described = self._described()
        return sorted({*super().__dir__(), *described.methods, *described.properties})

    def _has_method(self, name: str) -> bool:
        """Whether the class has the method."""
        return name in self._described().methods

    def _method_names(self) -> list[str]:
        """Return the names of the methods, with those that make objects."""
        described = self._described()
        return [*described.methods, *({"__init__", "__setstate__"} & described.static.keys())]

    def __reduce__(self) -> tuple[Any, ...]:
        described = self._described()
        if "__setstate__" not in described.static:
            raise RuntimeError(
                f"classes: Tried to serialize object {described.name}, which does not have a __getstate__ "
                "method: expected a class with def_pickle(), got one without"
            )
        state = described.methods["__getstate__"].call((self,), {})
        return _restored, (described.name, state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        rebuild, arguments = self.__reduce__()
        return rebuild(*arguments)

    def __repr__(self) -> str:
        return f"<flambeau.ScriptObject of {self._type_name()} at {id(self):#x}>"


ScriptObject.__module__ = "flambeau"


def _magic(name: str) -> Any:
    def method(self: ScriptObject, *args: Any) -> Any:
        described = self._described()
        if name not in described.methods:
            raise NotImplementedError(
                f"'{name}' is not implemented for {described.name}: expected a class with it, got one without"
            )
        return described.methods[name].call((self, *args), {})

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Call the class's {name}."
    return method


for _name in "len getitem setitem delitem contains call add sub mul neg int float".split():
    setattr(ScriptObject, f"__{_name}__", _magic(f"__{_name}__"))


def _restored(name: str, state: Any) -> ScriptObject:
    """Make an object from what ``__getstate__`` returned."""
    method = _described(name).static["__setstate__"]
    takes_parts = isinstance(state, tuple) and len(method.parameters) > 1
    made: ScriptObject = method.call(state if takes_parts else (state,), {})
    return made


class ScriptClass:
    """A class of C++: a call makes an object, and attributes are its static methods."""

    def __init__(self, name: str) -> None:
        self._class = _described(name)
        self.__doc__ = self._class.doc or None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "__init__" not in self._class.static:
            raise RuntimeError(
                f"{self._class.name}: expected a class with def(torch::init<...>()), got one without"
            )
        return self._class.static["__init__"].call(args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self._class.static:
            raise AttributeError(f"'{self._class.name}' has no static method '{name}'")
        return _BoundMethod(self._class.static[name])

    def __repr__(self) -> str:
        return f"<class {self._class.name}>"


ScriptClass.__module__ = "flambeau"


class _Namespace:
    """A library's classes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> ScriptClass:
        if name.startswith("__"):
            raise AttributeError(f"classes.{self.name} has no attribute '{name}'")
        made = ScriptClass(f"{_PREFIX}{self.name}.{name}")
        setattr(self, name, made)
        return made


def load_library(path: Any) -> None:
    """Load a library that is compiled for flambeau, with its classes and operators.

    Args:
        path: the shared library.
    Raises: OSError if it cannot be loaded, and RuntimeError if one of its blocks failed.
    """
    import flambeau

    flambeau.ops.load_library(path)
    loaded_libraries.add(str(Path(path).resolve()))


def __getattr__(name: str) -> _Namespace:
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    made = _Namespace(name)
    setattr(sys.modules[__name__], name, made)
    return made


_C._set_custom_object_type(ScriptObject)
