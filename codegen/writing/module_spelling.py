"""Options and expressions of codegen/cpp_modules.yaml in C++."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codegen.language import spelling

_TYPES = {"int": "int64_t", "float": "double", "bool": "bool", "reduction": "Reduction", "int[]": "Extent"}


def _type(text: str) -> str:
    if text in _TYPES:
        return _TYPES[text]
    count = text.removeprefix("int[").removesuffix("]")
    if not count.isdigit():
        raise ValueError(f"cpp_modules.yaml: expected one of {', '.join(_TYPES)} or int[N], got {text!r}")
    return f"Extents<{count}>"


@dataclass(frozen=True, slots=True)
class OptionDecl:
    """One field of an options struct."""

    name: str
    type: str
    required: bool
    positional: bool  # an argument of the constructor
    initial: str
    passed: str  # the value as operators take it

    @classmethod
    def of(cls, name: str, row: Any) -> OptionDecl:
        """Read `type`, `[type, default]` or `[type, default, positional]`."""
        type_, default, *positional = row if isinstance(row, list) else (row, None)
        initial = "" if default is None else f" = {_default(type_, default)}"
        value = f"options.{name}()"
        passed = f"static_cast<int64_t>({value})" if type_ == "reduction" else value
        return cls(name, _type(type_), default is None, default is None or bool(positional), initial, passed)


def _default(type_: str, value: Any) -> str:
    if type_ == "reduction":
        return f"k{value.capitalize()}"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value}_" if isinstance(value, str) else repr(value)


class Spelled:
    """Expressions of an entry in C++."""

    def __init__(self, name: str, values: Mapping[str, str]) -> None:
        self.name, self.values = name, values

    def text(self, source: Any) -> str:
        """Spell one expression."""
        return self._of(ast.parse(str(source), mode="eval").body)

    def list(self, parts: list[Any]) -> str:
        """Spell a shape: numbers, and lists after a star."""
        return ", ".join(self.text(str(part).removeprefix("*")) for part in parts)

    def _of(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name) if name in self.values:
                return self.values[name]
            case ast.Constant(value=bool() | int() | float() as value):
                return str(value).lower()
            case ast.BinOp(op=ast.FloorDiv(), left=left, right=right):
                return f"divided({self._of(left)}, {self._of(right)})"
            case ast.BoolOp(op=ast.Or(), values=parts):
                return " || ".join(map(self._of, parts))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"!{self._of(operand)}"
        known = ", ".join(self.values)
        raise ValueError(f"cpp_modules.yaml: {self.name}: expected {known}, got {ast.unparse(node)!r}")

    def call(self, source: str) -> str:
        """Spell the call of an operator."""
        node = ast.parse(source, mode="eval").body
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)) or node.keywords:
            raise ValueError(
                f"cpp_modules.yaml: {self.name}: expected the call of an operator, got {source!r}"
            )
        return f"api::{spelling.local(node.func.id)}({', '.join(map(self._of, node.args))})"
