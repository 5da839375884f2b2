"""Operators by their PyTorch name: `ops.aten.add(a, b)`, `ops.aten.add.Tensor(a, b)`.

The namespace looks a name up among all operators of the specification, internal ones too, and among the
functions and methods that are written in Python. An overload is the operator with the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from flambeau import _C

Function = Callable[..., Any]


class Overload:
    """One overload of an operator."""

    def __init__(self, packet: OverloadPacket, name: str) -> None:
        self._packet = packet
        self._overloadname = name
        self.__name__ = f"{packet.__name__}.{name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._packet(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<operator {self._packet._qualified}.{self._overloadname}>"


class OverloadPacket:
    """An operator with all its overloads; calling it chooses one by the arguments."""

    def __init__(self, namespace: str, name: str, function: Function) -> None:
        self.__name__ = name
        self._qualified = f"{namespace}.{name}"
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Overload:
        if name.startswith("__") or (name != "default" and name not in self.overloads()):
            raise AttributeError(f"the operator '{self._qualified}' has no overload name '{name}'")
        overload = Overload(self, name)
        setattr(self, name, overload)
        return overload

    def overloads(self) -> list[str]:
        """Return the names of the overloads; "default" is the one without."""
        return _overloads().get(self.__name__, ["default"])

    def __repr__(self) -> str:
        return f"<operator {self._qualified}>"


_by_name: dict[str, list[str]] = {}


def _overloads() -> dict[str, list[str]]:
    """Base name -> overloads, from the table of operators."""
    if not _by_name:
        for schema in _C._operator_schemas():
            base, _, overload = schema.partition("(")[0].partition(".")
            _by_name.setdefault(base, []).append(overload or "default")
    return _by_name


def _tables() -> list[Any]:
    return [getattr(_C, f"_{name}", None) for name in ("functions", "nn", "linalg", "special", "fft")]


def _find(name: str) -> Function | None:
    for table in _tables():
        if table is not None and hasattr(table, name):
            return getattr(table, name)
    import flambeau

    if name in vars(flambeau) and not isinstance(vars(flambeau)[name], ModuleType | type):
        return vars(flambeau)[name]
    return getattr(_C.Tensor, name, None) if name in dir(_C.Tensor) else None


class Namespace:
    """The operators of one library; `aten` holds those of the specification."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> OverloadPacket:
        function = None if name.startswith("__") else _find(name)
        if function is None or not callable(function):
            raise AttributeError(f"'{self._name}' object has no attribute '{name}'")
        packet = OverloadPacket(self._name, name, function)
        setattr(self, name, packet)
        return packet

    def __dir__(self) -> list[str]:
        return sorted(_overloads())


aten = Namespace("aten")
