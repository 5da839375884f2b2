"""Subsystems that are not built: their modules can be imported and asked, and do nothing else.

A class can be named in annotations, in `isinstance` and as a base. Making an instance of it, or calling a
function, raises RuntimeError, which says what is missing. Queries answer as PyTorch does without the
subsystem.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from flambeau._loading import lazy
from flambeau._loading.absence import absent_class, absent_function

# Subsystem -> the module with its table and what an error says is missing.
_SUBSYSTEMS = (
    "absent_distributed",
    "absent_export",
    "absent_quantization",
    "absent_devices",
    "absent_graphs",
    "absent_top",
)


def _named(function: Any, name: str, module: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = module, doc
    return function


def _decorator(name: str, module: str, missing: str) -> Any:
    def decorator(*args: Any, **kwargs: Any) -> Any:
        """Return what is decorated as it is: the marks have no reader."""
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return lambda function: function

    return _named(decorator, name, module, f"A mark for a subsystem that is not built: {missing}.")


def _answer(text: str, module: str, missing: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    words: dict[str, Any] = {"False": False, "True": True, "None": None, "()": (), "{}": {}, "[]": []}
    result = int(value) if value.isdigit() else words[value]

    def function(*args: Any, **kwargs: Any) -> Any:
        return result

    return name, _named(function, name, module, f"Return {value}: {missing}.")


def _value(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    constants: dict[str, Any] = {"False": False, "True": True, "None": None, "{}": {}}
    return name, constants[value] if value in constants else int(value) if value.lstrip(
        "-"
    ).isdigit() else value


def _error(text: str, module: str) -> tuple[str, Any]:
    name, _, base = text.partition("=")
    return name, type(name, (getattr(builtins, base or "RuntimeError"),), {"__module__": module})


def _entries(kind: str, words: list[str], module: str, missing: str) -> Iterator[tuple[str, Any]]:
    if kind == "enum":  # its name, then its members
        yield words[0], enum.Enum(words[0], words[1:], module=module)
        return
    if kind == "method":  # the class, then what its instances would have
        yield words[0], words[1:]
        return
    for word in words:
        if kind == "class":  # some have constants: group:WORLD=None
            name, *constants = word.split(":")
            yield name, absent_class(name, module, missing, **dict(map(_value, constants)))
        elif kind == "def":
            yield word, absent_function(word, module, missing)
        elif kind == "decorator":
            yield word, _decorator(word, module, missing)
        elif kind == "answer":
            yield _answer(word, module, missing)
        elif kind == "value":
            yield _value(word)
        elif kind == "error":
            yield _error(word, module)
        else:
            name, _, home = word.partition("=")  # the name is another module's
            yield name, home


def _read(subsystem: str) -> dict[str, tuple[str, list[list[str]]]]:
    """Return module -> (what is missing, lines of words) of one table."""
    table = import_module(f"flambeau._surface.{subsystem}")
    found: dict[str, tuple[str, list[list[str]]]] = {}
    for missing, text in table.TABLES.items():
        lines: list[list[str]] = []
        for line in text.splitlines():
            if line and not line.startswith(" "):
                lines = []
                found[line.strip()] = missing, lines
            elif line.startswith("      "):
                lines[-1].extend(line.split())
            elif line.strip():
                lines.append(line.split())
    packages = {name.rpartition(".")[0] for name in found if "." in name}
    return {
        name: ("", [])
        for name in packages - {"nn", "autograd", "cuda", "fx.experimental", "fx.passes", "jit"}
    } | found


def _add_methods(owner: Any, names: list[str], module: str, missing: str) -> None:
    for name in names:
        method = absent_function(name, module, missing)
        method.__qualname__ = f"{owner.__qualname__}.{name}"
        setattr(owner, name, method)


MODULES = {name: entry for subsystem in _SUBSYSTEMS for name, entry in _read(subsystem).items()}


def fill(module: ModuleType) -> None:
    """Give a module its classes, functions and answers."""
    missing, lines = MODULES[module.__name__.partition(".")[2]]
    home = module.__name__.partition("._top.")[0]  # what belongs to the package itself
    module.__doc__ = f"Not built: {missing}."
    elsewhere = {}
    for kind, *words in lines:
        for name, value in _entries(kind, words, home, missing):
            if kind == "from":
                elsewhere[name] = f"flambeau.{value}"
            elif kind == "method":
                _add_methods(vars(module)[name], value, home, missing)
            else:
                setattr(module, name, value)
    functions = lazy.attributes(module.__name__, elsewhere)
    vars(module)["__getattr__"], vars(module)["__dir__"] = functions
