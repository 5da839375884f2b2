"""Each module of python/flambeau/_operators says why it is not in the YAML, and which operators it calls.

A module that calls operators through another module of the room names that module.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(p for p in (ROOT / "python/flambeau/_operators").glob("*.py") if p.stem != "__init__")
ENTRY = re.compile(r"^- func: (\w+)", re.MULTILINE)


def said(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    found = re.search(r"^In Python because (.*)", docstring, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{path.name}: the docstring has no paragraph 'In Python because'"
    return found[1]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_names_the_operators_that_it_calls(path: Path) -> None:
    operators = set(ENTRY.findall((ROOT / "native_functions.yaml").read_text(encoding="utf-8")))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & operators
    imported = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    used |= imported & {path.stem for path in MODULES}
    _, _, names = said(path).partition("Calls ")
    named = set(re.findall(r"`(\w+)`", names))
    assert named, f"{path.name}: the docstring names no operator behind 'Calls'"
    assert named <= used, f"{path.name}: named, but not called: {sorted(named - used)}"
