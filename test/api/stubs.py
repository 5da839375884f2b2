"""Parameters of functions that are written in C, read from a framework's own stub files."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path
from typing import Any

POSITIONAL_ONLY, EITHER, ANY_POSITIONAL, KEYWORD_ONLY, ANY_KEYWORD = range(5)


def signature(node: ast.FunctionDef) -> list[tuple[str, int, bool]]:
    """Return (name, kind, has a default) of the parameters of a function in a stub."""
    args = node.args
    plain = [(a, POSITIONAL_ONLY) for a in args.posonlyargs] + [(a, EITHER) for a in args.args]
    first_default = len(plain) - len(args.defaults)
    found = [(a.arg, kind, i >= first_default) for i, (a, kind) in enumerate(plain)]
    if args.vararg:
        found.append((args.vararg.arg, ANY_POSITIONAL, False))
    found += [
        (a.arg, KEYWORD_ONLY, default is not None)
        for a, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg:
        found.append((args.kwarg.arg, ANY_KEYWORD, False))
    return found


class Stubs:
    """The functions and methods of all stub files of a framework, by name."""

    def __init__(self, framework: str) -> None:
        folder = Path(str(importlib.util.find_spec(framework).origin)).parent
        self.has_schemas = framework == "torch"
        self.functions: dict[str, list[Any]] = {}
        self.methods: dict[str, list[Any]] = {}
        for path in sorted([*folder.glob("*.pyi"), *folder.glob("_C/*.pyi")]):
            for node in ast.parse(path.read_text()).body:
                self._take(node, path.stem)

    def _take(self, node: ast.stmt, stem: str) -> None:
        if isinstance(node, ast.FunctionDef):
            space = stem.strip("_")
            for name in (node.name, f"{space}_{node.name}"):
                self.functions.setdefault(name, []).append(signature(node))
        elif isinstance(node, ast.ClassDef) and "Tensor" in node.name:
            for item in node.body:
                if isinstance(item, ast.FunctionDef):
                    self.methods.setdefault(item.name, []).append(signature(item))

    def find(self, value: Any, path: str) -> list[Any] | None:
        """Return the signatures of a builtin function or method."""
        name = getattr(value, "__name__", path.rpartition(".")[2])
        if path.startswith("Tensor."):
            return self.methods.get(name)
        if inspect.ismethoddescriptor(value):  # of a class that no stub tells apart
            return None
        return self.functions.get(name) or (schemas(name) if self.has_schemas else None)


def schemas(name: str) -> list[Any] | None:
    """Return the parameters of an operator of PyTorch's that no stub describes, from its schemas."""
    import torch

    found = []
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        given = [a for a in schema.arguments if not a.is_out]
        found.append(
            [(a.name, KEYWORD_ONLY if a.kwarg_only else EITHER, a.has_default_value()) for a in given]
        )
    return found or None
