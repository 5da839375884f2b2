"""Functions of the package that are written in Python, and the operators that they call."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from codegen.commands.places import Place
from codegen.model import Model, Operator
from codegen.writing.output import ROOT

PACKAGE = ROOT / "python" / "flambeau"
_MODULES = ("", "nn_", "linalg_", "special_", "fft_")


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A function at the top of a module, and every name that it calls."""

    name: str
    place: Place
    calls: tuple[str, ...]


def wrappers_of(name: str) -> list[Wrapper]:
    """Return the functions in Python that are called `name`."""
    return [found[name] for found in _modules().values() if name in found]


def called_by(wrappers: Iterable[Wrapper], model: Model) -> list[Operator]:
    """Return the operators that functions call themselves, or through functions of their modules."""
    known: dict[str, list[Operator]] = {}
    for op in model.operators:
        names = {op.schema.name.base, *(alias.rpartition(".")[2] for alias in op.aliases)}
        for name in names:
            known.setdefault(name, []).append(op)
    found: dict[str, Operator] = {}
    for wrapper in wrappers:
        for name in _closure(wrapper, _modules()[wrapper.place.file]):
            for op in next((known[m + name] for m in _MODULES if m + name in known), ()):
                found.setdefault(op.name, op)
    return list(found.values())


def _closure(wrapper: Wrapper, module: Mapping[str, Wrapper]) -> Iterator[str]:
    pending, seen = list(wrapper.calls), {wrapper.name}
    yield wrapper.name
    while pending:
        name = pending.pop(0)
        if name not in seen:
            seen.add(name)
            yield name
            if name in module:
                pending += module[name].calls


@cache
def _modules() -> dict[str, dict[str, Wrapper]]:
    """Return file -> name -> function, of every module of the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): _functions(path) for path in paths}


def _functions(path: Path) -> dict[str, Wrapper]:
    file = path.relative_to(ROOT).as_posix()
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            place = Place(file, node.lineno, f"{node.name}: function in Python")
            found[node.name] = Wrapper(node.name, place, tuple(_calls(node)))
    return found


def _calls(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id not in vars(builtins):
                yield node.func.id
