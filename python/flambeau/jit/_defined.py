"""Methods from source text, for `ScriptModule.define`."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import flambeau


def methods_of(src: str, around: Mapping[str, Any]) -> dict[str, FunctionType]:
    """Return the functions that a text defines; they can use torch, Tensor and the names in `around`.

    Raises: RuntimeError if the text is not Python, or contains anything except functions.
    """
    try:
        tree = ast.parse(textwrap.dedent(src))
    except SyntaxError as error:
        raise RuntimeError(f"define: expected Python source, got a syntax error: {error}") from error
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not names or len(names) != len(tree.body):
        raise RuntimeError("define: expected definitions of methods only, got other code")
    namespace = {"torch": flambeau, "Tensor": flambeau.Tensor, **around}
    exec(compile(tree, "<define>", "exec"), namespace)
    return {name: namespace[name] for name in names}
