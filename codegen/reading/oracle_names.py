"""What references may name: attributes of NumPy and SciPy, functions of test/ops/references.py."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen.source.diagnostics import did_you_mean
from codegen.source.memory import Memory, digest

# Name -> its parameters, and whether it takes any number of them and any keywords; None: no function.
Functions = Mapping[str, tuple[tuple[str, ...], bool, bool] | None]
_MODULES = {"np": "numpy", "sp": "scipy.special"}
_SOURCES = ("references.py", "layer_references.py", "linalg_references.py", "random_references.py")


@dataclass(frozen=True, slots=True)
class Missing:
    """The first missing attribute of a chain, after `depth` names that exist."""

    depth: int
    hint: str


class Oracles:
    """The attributes of `np`, `sp` and `references`; looking up a known one imports nothing."""

    def __init__(self, tests: Path, memory: Memory) -> None:
        self._memory = memory
        self._versions: dict[str, str | None] = {}
        self._sources = ""
        self.functions: Functions | None = self._functions(tests)

    @property
    def key(self) -> str:
        """All that the answers follow from, as text."""
        return f"{self._version('np')} {self._version('sp')} {self._sources}"

    def missing(self, chain: list[str]) -> Missing | None:
        """Return what an attribute chain lacks; None where the package is not installed either."""
        root = chain[0]
        version = self._version(root)
        if version is None:
            return None
        found: list[Missing] = []

        def look() -> bool | None:
            missing = _look(chain)
            found.extend([missing] if missing else [])
            return None if missing else True

        self._memory.recall(digest("attribute", version, *chain), look)
        return found[0] if found else None

    def _version(self, root: str) -> str | None:
        """Return what tells one installation from another; None: not installed."""
        if root not in self._versions:
            self._versions[root] = installed(_MODULES[root].split(".")[0])
        return self._versions[root]

    def _functions(self, tests: Path) -> Functions | None:
        texts = [path.read_text(encoding="utf-8") for name in _SOURCES if (path := tests / name).is_file()]
        if not texts:
            return None
        key = digest("functions", *texts)
        self._sources = key.hex()
        functions: Functions = self._memory.recall(key, lambda: _read(texts))
        return functions


def installed(package: str) -> str | None:
    """Return what tells one installation from another without importing it; None: not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    version = origin.with_name("version.py")
    stat = (version if version.is_file() else origin).stat()
    return f"{origin} {stat.st_mtime_ns} {stat.st_size}"


def _look(chain: list[str]) -> Missing | None:
    value: Any = importlib.import_module(_MODULES[chain[0]])
    for depth, name in enumerate(chain[1:], 1):
        if not hasattr(value, name):
            return Missing(depth, did_you_mean(name, dir(value)) or "see its documentation")
        value = getattr(value, name)
        if depth == 1 and not hasattr(value, "__path__"):
            return None  # what functions and scalar types have is not looked into
    return None


def _read(texts: list[str]) -> dict[str, tuple[tuple[str, ...], bool, bool] | None]:
    found: dict[str, tuple[tuple[str, ...], bool, bool] | None] = {}
    for node in (node for text in texts for node in ast.parse(text).body):
        if isinstance(node, ast.FunctionDef):
            args = node.args
            names = tuple(a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs))
            found[node.name] = (names, args.vararg is not None, args.kwarg is not None)
        elif isinstance(node, ast.ClassDef):
            found[node.name] = None
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {t.id: None for t in targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0]: None for alias in node.names}
    return found
