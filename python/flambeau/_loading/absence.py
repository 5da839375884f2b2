"""Stand-ins for classes and functions of subsystems that are not built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


class Absent(type):
    """The type of classes of a subsystem that is not built: nothing is an instance of them."""

    _missing = ""

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{cls.__module__}.{cls.__qualname__}: {cls._missing}")

    def __getitem__(cls, parameters: Any) -> Absent:
        return cls

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"{cls.__module__}.{cls.__qualname__}.{name}: {cls._missing}")


def absent_class(name: str, module: str, missing: str, **constants: Any) -> Absent:
    """Return a class that cannot be instantiated; `missing` is the reason."""
    facts: dict[str, Any] = {"__module__": module, "_missing": missing, "__doc__": f"Not built: {missing}."}
    return Absent(name, (), facts | constants)


def absent_function(name: str, module: str, missing: str) -> Callable[..., NoReturn]:
    """Return a function that raises RuntimeError; `missing` is the reason."""

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{function.__module__}.{name}: {missing}")

    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = module, f"Not built: {missing}."
    return function
