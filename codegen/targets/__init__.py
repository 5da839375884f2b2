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


# What an extension has beside targets/library/.
_ALONE = ("build_files", "python_module", "registration", "tests")
_OF_LIBRARY = ("autograd", "implementations", "loops", "operators", "traits")


def emit_library(
    model: Model, kernels: Iterable[str], built_for: str, references: str = ""
) -> dict[str, str]:
    """Return path -> text of every output of an extension, sorted by path.

    `kernels` are the author's sources in C++, relative to the outputs; `built_for` names the flambeau that
    the code fits; `references` is the author's module of references, relative to the tests.
    """
    own = [import_module(f"codegen.targets.library.{name}") for name in _ALONE]
    build_files, python_module, registration, tests = own
    native: dict[str, str] = {}
    for name in _OF_LIBRARY:
        module = import_module(f"codegen.targets.{name}")
        native.update((file.path, file.text) for file in module.emit(model))
    native.update((file.path, file.text) for file in registration.emit(model, tuple(native), built_for))
    files = {f"{model.library}/{path}": text for path, text in native.items()}
    files.update((file.path, file.text) for file in python_module.emit(model))
    listed = build_files.emit(model, tuple(files), kernels, registration.ISA_FLAGS)
    files.update((file.path, file.text) for file in listed)
    records = import_module("codegen.targets.op_tests").emit(model)
    files.update((file.path, file.text) for file in (*records, *tests.emit(model, references)))
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
