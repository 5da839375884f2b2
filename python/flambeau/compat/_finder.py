"""Finds `torch` and its submodules, and the distribution torch, in flambeau."""

from __future__ import annotations

import importlib.abc
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from flambeau._loading import lazy
from flambeau.compat import _names
from flambeau.version import torch_version


class _Other(importlib.abc.Loader):
    """Gives the module of flambeau for the one of PyTorch."""

    def __init__(self, spec: ModuleSpec) -> None:
        self.spec = spec

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(self.spec.name)

    def get_code(self, name: str) -> CodeType | None:
        """Return the module's code, for ``python -m``."""
        return self.spec.loader.get_code(self.spec.name)  # type: ignore[union-attr]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "spec":
            raise AttributeError(name)
        return getattr(self.spec.loader, name)


class _Named(importlib.abc.Loader):
    """Loads a module of flambeau, which then goes by PyTorch's name as well."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        sys.modules[_names.torch_name(name)] = module
        try:
            self.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(_names.torch_name(name), None)
            raise
        _names.rename(name, module)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)


class _Distribution(importlib.metadata.Distribution):
    """The distribution torch, as far as programs ask: its version and its top-level name."""

    def read_text(self, filename: str) -> str | None:
        path = ANSWER / f"torch-{torch_version}.egg-info" / filename
        return path.read_text() if path.is_file() else None

    def locate_file(self, path: Any) -> Path:
        return ANSWER / path


ANSWER = Path(__file__).with_name("answer")


class _Finder(importlib.abc.MetaPathFinder):
    """Answers torch, what lies below it, and modules of flambeau that are imported from now on."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, _, rest = fullname.partition(".")
        if root == "flambeau" and not fullname.startswith("flambeau.compat"):
            spec = _spec(fullname)
            if spec is not None and spec.loader is not None:
                spec.loader = _Named(spec.loader)
            return spec
        if root != "torch" or (rest and sys.modules.get("torch") is not sys.modules["flambeau"]):
            return None
        own = f"flambeau.{rest}" if rest else "flambeau"
        found = sys.modules["flambeau"].__spec__ if not rest else importlib.util.find_spec(own)
        if found is None:
            _refuse(fullname)
            return None
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, _Other(found), origin=found.origin, is_package=is_package)

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        """Yield the distribution torch if it is what `importlib.metadata` looks for."""
        if context is None or context.name is None or context.name.lower() == "torch":
            yield _Distribution()


def _spec(fullname: str) -> ModuleSpec | None:
    """Find a module of flambeau as Python would without the finder that asks."""
    parent = sys.modules.get(fullname.rpartition(".")[0])
    path = getattr(parent, "__path__", None)
    for finder in sys.meta_path:
        if not isinstance(finder, _Finder):
            spec = finder.find_spec(fullname, path, None)
            if spec is not None:
                return spec
    return None


def _refuse(fullname: str) -> None:
    """Raise ImportError with the nearest name for a missing module, unless the caller asks for a spec."""
    frame = sys._getframe(3)
    if frame.f_code.co_name != "_find_and_load_unlocked":
        return
    parent, _, name = fullname.rpartition(".")
    near = lazy.nearest(name, lazy.every_submodule(sys.modules[parent]))
    raise ModuleNotFoundError(f"No module named '{fullname}' (answered by flambeau){near}", name=fullname)


def pytorch_is_installed() -> bool:
    """Whether `import torch` would find PyTorch itself."""
    spec = PathFinder.find_spec("torch")
    return spec is not None and not str(spec.origin).startswith(str(ANSWER))


def install() -> None:
    """Answer imports and questions about distributions from now on."""
    sys.meta_path.insert(0, _Finder())
    importlib.invalidate_caches()
