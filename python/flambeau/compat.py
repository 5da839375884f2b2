"""Run a program that was written for PyTorch: ``python -m flambeau.compat script.py [arguments]``.

``import torch`` and ``import torch.nn`` are answered by flambeau and its submodules.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


class _Loader(importlib.abc.Loader):
    def __init__(self, target: str) -> None:
        self.target = target

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return importlib.import_module(self.target)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Finder(importlib.abc.MetaPathFinder):
    """Answers `torch` and everything below it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        root, _, rest = fullname.partition(".")
        if root != "torch":
            return None
        name = f"flambeau.{rest}" if rest else "flambeau"
        if importlib.util.find_spec(name) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(name), is_package=True)


def install() -> None:
    """Answer `import torch` with flambeau from now on, in this process.

    ``torch.__version__`` says which version of PyTorch's API that is, since programs ask for it.
    """
    import flambeau
    from flambeau.version import torch_api

    flambeau.__version__ = f"{torch_api}+flambeau"
    names = [name for name in sys.modules if name == "flambeau" or name.startswith("flambeau.")]
    for name in names:
        sys.modules["torch" + name.removeprefix("flambeau")] = sys.modules[name]
    sys.meta_path.insert(0, _Finder())


def main(argv: list[str]) -> None:
    """Run the script that `argv` names, with the rest as its arguments."""
    if not argv:
        raise SystemExit("usage: python -m flambeau.compat script.py [arguments]")
    import flambeau  # noqa: F401  (known under its own name before it gets a second one)

    install()
    sys.argv = argv
    sys.path.insert(0, str(Path(argv[0]).resolve().parent))
    runpy.run_path(argv[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
