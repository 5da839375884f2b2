"""All outputs of a model: every module in codegen/targets has emit(model) -> files."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from typing import Protocol

from codegen import targets
from codegen.model import Model


class Emitted(Protocol):
    """What targets yield: codegen.render.File."""

    @property
    def path(self) -> str:
        """Relative to torchgen_out."""

    @property
    def text(self) -> str:
        """The content."""


def target_names() -> list[str]:
    """Return the targets in the order in which they run."""
    return sorted(m.name for m in pkgutil.iter_modules(targets.__path__) if not m.ispkg)


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
    return dict(sorted(files.items()))
