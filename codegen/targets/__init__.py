"""All outputs of a model: every module here has emit(model) -> files."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from typing import Protocol

from codegen.model import Model


class Emitted(Protocol):
    """What targets yield: codegen.writing.render.File."""

    @property
    def path(self) -> str:
        """Relative to torchgen_out."""

    @property
    def text(self) -> str:
        """The content."""


def target_names() -> list[str]:
    """Return the targets in the order they run in."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.ispkg)


def emit_all(model: Model, names: Iterable[str] | None = None) -> dict[str, str]:
    """Return path -> text of every output, sorted by path."""
    files: dict[str, str] = {}
    for name in target_names() if names is None else names:
        module = import_module(f"codegen.targets.{name}")
        emitted: Iterable[Emitted] = module.emit(model)
        for file in emitted:
            if file.path in files:
                raise ValueError(f"{name}: output {file.path} is written by another target too")
            files[file.path] = file.text
    files[SOURCES] = sources(files)
    return dict(sorted(files.items()))


SOURCES = "sources.cmake"
# CMake list -> where its members lie and how they end.
_LISTS = {
    "FLAMBEAU_CORE_SOURCES": ("aten/", ".cpp"),
    "FLAMBEAU_LOOP_SOURCES": ("cpu/", ".cpp"),
    "FLAMBEAU_AUTOGRAD_SOURCES": ("autograd/", ".cpp"),
    "FLAMBEAU_PYTHON_SOURCES": ("python/", ".cpp"),
    "FLAMBEAU_CUDA_SOURCES": ("cuda/", ".cu"),
    "FLAMBEAU_ALL_OUTPUTS": ("", ""),
}


def sources(paths: Iterable[str]) -> str:
    """Return the CMake fragment that lists every output by kind."""
    lines = []
    for name, (folder, suffix) in _LISTS.items():
        members = sorted(p for p in paths if p.startswith(folder) and p.endswith(suffix))
        lines.append(f"set({name}\n" + "".join(f"    {p}\n" for p in members) + ")\n")
    return "".join(lines)
