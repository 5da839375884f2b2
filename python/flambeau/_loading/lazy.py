"""Modules whose parts are imported when they are first used, and errors that name what exists instead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from opcode import opmap
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from flambeau._loading.tables import submodules_of

_SUFFIXES = (".py", ".so")


def submodules(package: ModuleType) -> set[str]:
    """Return the names of the modules in a package's folders."""
    found = set()
    for folder in map(Path, getattr(package, "__path__", ())):
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.suffix in _SUFFIXES or (entry / "__init__.py").is_file():
                found.add(entry.name.partition(".")[0])
    return found - {"__init__", "__main__"}


def every_submodule(module: ModuleType) -> set[str]:
    """Return the names of modules in a package's folders and in the tables."""
    spoken = module.__name__
    return submodules(module) | submodules_of("flambeau" + spoken[spoken.find(".") :] * ("." in spoken))


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the sentence that names the nearest of `names`, or nothing if none is near."""
    from difflib import get_close_matches

    near = get_close_matches(name, [n for n in names if not n.startswith("__")], n=1)
    return f"; the nearest name is '{near[0]}'" if near else ""


class _MissingName(AttributeError):
    """An AttributeError that builds its text on demand, because `hasattr` discards it unread."""

    def __init__(self, module: ModuleType, name: str) -> None:
        super().__init__(name=name, obj=module)

    def __str__(self) -> str:
        return missing(self.obj, str(self.name))


_MissingName.__name__ = _MissingName.__qualname__ = "AttributeError"
_MissingName.__module__ = "builtins"


def missing(module: Any, name: str) -> str:
    """Return the text of the error for an attribute that a module lacks."""
    spoken = module.__name__
    provider = "" if spoken.startswith("flambeau") else " (answered by flambeau)"
    names = {*vars(module), *every_submodule(module), *getattr(module, "__dir__", list)()}
    return f"module '{spoken}'{provider} has no attribute '{name}'{nearest(name, names)}"


def refuse(module: ModuleType, name: str, depth: int = 2) -> NoReturn:
    """Raise ImportError in ``from module import name``, AttributeError elsewhere.

    Python replaces the text of an AttributeError by its own in that statement, which cannot say what is near.
    """
    frame = sys._getframe(depth)
    if frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]:
        text = missing(module, name).replace("has no attribute", "has no name")
        raise ImportError(text, name=module.__name__, path=getattr(module, "__file__", None))
    raise _MissingName(module, name)


def attributes(
    module_name: str, elsewhere: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a module.

    Args:
        module_name: its name, such as ``flambeau.utils``.
        elsewhere: name -> the module that has it. A submodule of a name not listed is found by itself.
    """
    module = sys.modules[module_name]
    elsewhere = elsewhere or {}
    folder: set[str] = set()

    def __getattr__(name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in ("__config__", "__future__"):
            raise AttributeError(
                f"module '{module.__name__}' has no attribute '{name}'", name=name, obj=module
            )
        if name in elsewhere:
            value = getattr(import_module(elsewhere[name]), name)
            return vars(module).setdefault(name, value)
        if not folder:
            folder.update(submodules(module))
        if name in folder:
            return import_module(f"{module_name}.{name}")
        value = import_module("flambeau._surface.places").find(module_name, name)
        if value is not None:
            return vars(module).setdefault(name, value)
        if name in submodules_of(module_name):
            return import_module(f"{module_name}.{name}")
        refuse(module, name)

    def __dir__() -> list[str]:
        if not folder:
            folder.update(submodules(module))
        return sorted({*vars(module), *elsewhere, *(n for n in folder if not n.startswith("_"))})

    return __getattr__, __dir__
