"""Finds modules of PyTorch that are rows of the tables in `_surface`, when a program asks for one."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

# The first that has a module gives it.
_TABLES = ("flambeau._surface.places", "flambeau._surface.absent")


class _Package(ModuleType):
    """A package that keeps its functions when submodules of the same names are imported.

    Python binds an imported submodule in its package. PyTorch's packages import theirs first and then bind
    the function, as with ``nn.utils.weight_norm``.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and callable(vars(self).get(name))):
            super().__setattr__(name, value)


def _keep_function(package: ModuleType | None, name: str) -> None:
    """Let a package keep the function that goes by the name of one of its submodules."""
    if package is None:
        return
    found = vars(package).get(name)
    if found is None:
        found = import_module("flambeau._surface.places").find(package.__name__, name)
    if callable(found):
        vars(package)[name] = found
        package.__class__ = _Package


class _Loader(importlib.abc.Loader):
    def __init__(self, table: ModuleType) -> None:
        self.table = table

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self.table.fill(module)
        parent, _, name = module.__name__.rpartition(".")
        _keep_function(sys.modules.get(parent), name)

    def get_code(self, name: str) -> CodeType:
        """Return what ``python -m`` executes: the module's `main`, if it has one."""
        runs = callable(getattr(import_module(name), "main", None))
        return compile(f"from {name} import main\nmain()" if runs else "", f"<{name}>", "exec")


class _Finder(importlib.abc.MetaPathFinder):
    """The last finder: finds modules of flambeau that have no file."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, _, name = fullname.partition(".")
        if root != "flambeau" or name.startswith(("_surface", "_loading")):
            return None
        for table in map(import_module, _TABLES):
            if name in table.MODULES:
                below = bool(submodules_of(fullname))
                return ModuleSpec(fullname, _Loader(table), origin=table.__file__, is_package=below)
        return None


def submodules_of(name: str) -> set[str]:
    """Return the names of modules directly below one that tables give."""
    prefix = name.removeprefix("flambeau").removeprefix(".")
    prefix = f"{prefix}." if prefix else ""
    every = {entry for table in _TABLES for entry in import_module(table).MODULES}
    return {entry[len(prefix) :].partition(".")[0] for entry in every if entry.startswith(prefix)}


def install() -> None:
    """Let the tables be asked for modules that have no file."""
    sys.meta_path.append(_Finder())
