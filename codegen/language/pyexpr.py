"""Python expression syntax with YAML positions: what the scalar and the tensor level share."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter, is_
from typing import Any, TypeVar

from codegen import model
from codegen.model import Expr, Position, Var
from codegen.source.diagnostics import Collector
from codegen.source.nodes import Text

CONSTANTS = {"inf": math.inf, "nan": math.nan, "pi": math.pi}

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.Not: "not", ast.Invert: "~"}

INFIX_SYMBOLS = (*BINARY.values(), *COMPARE.values(), "~", "and", "or", "not", "if")

DEEPEST = 60

T = TypeVar("T", bound=ast.AST)
Node = ast.expr | ast.keyword | ast.stmt

_CLOSING = {")": "(", "]": "[", "}": "{"}
_PAIRS = re.compile(r"\([^][(){}]*\)|\[[^][(){}]*\]|\{[^][(){}]*\}")
_BRACKET = re.compile(r"[][(){}]")


class Source:
    """One expression's text, its tree, and the way back to the YAML file."""

    def __init__(
        self,
        text: Text,
        collector: Collector,
        start: int = 0,
        end: int | None = None,
        lets: Mapping[str, str] | None = None,
    ) -> None:
        """`lets`, at the tensor level: the text of the expression that each name abbreviates."""
        self.lets = lets
        self._added = 1  # parentheses before the text, which columns of the first line count
        self.text = text
        self.collector = collector
        self.start = start
        self.value = text.value[start:end]
        self._line_starts = [0]
        for line in self.value.split("\n"):
            self._line_starts.append(self._line_starts[-1] + len(line) + 1)

    def tree(self) -> ast.expr | None:
        """Parse the text; a syntax error is reported and gives None."""
        if not self.value.strip():
            self.report(0, "FB0301", "empty expression", "write a Python expression")
            return None
        if not self._balanced():
            return None
        try:
            # Parentheses let an expression span lines without backslashes.
            return self._shallow(ast.parse(f"({self.value}\n)", mode="eval").body)
        except (RecursionError, MemoryError):
            return self._shallow(None)
        except SyntaxError as error:
            line = min(max((error.lineno or 1) - 1, 0), len(self._line_starts) - 2)
            column = (error.offset or 1) - (2 if line == 0 else 1)
            offset = min(max(self._line_starts[line] + column, 0), len(self.value) - 1)
            message = f"syntax error: {error.msg}"
            self.report(offset, "FB0301", message, _syntax_hint(self.value))
            return None

    def statements(self) -> list[ast.stmt] | None:
        """Parse the text as a function body; a syntax error is reported and gives None."""
        self._added = 0
        try:
            tree = ast.parse(self.value)
        except (RecursionError, MemoryError):
            self._shallow(None)
            return None
        except SyntaxError as error:
            line = min(max((error.lineno or 1) - 1, 0), len(self._line_starts) - 2)
            offset = min(self._line_starts[line] + max((error.offset or 1) - 1, 0), len(self.value) - 1)
            self.report(offset, "FB0301", f"syntax error: {error.msg}", "a body is written as in Python")
            return None
        return None if self._shallow(tree) is None else tree.body

    def _shallow(self, tree: T | None) -> T | None:
        """Refuse what no person writes, and what recursive functions could not walk."""
        level: list[ast.AST] = [] if tree is None else [tree]
        depth = DEEPEST if tree is None else 0
        while level and len(self.value) > 2 * DEEPEST and depth < DEEPEST:
            depth += 1
            level = [child for node in level for child in ast.iter_child_nodes(node)]
        if depth < DEEPEST:
            return tree
        message = f"expression of more than {DEEPEST} levels"
        self.report(0, "FB0307", message, "name its parts with `let:`, or make operators of them")
        return None

    def _balanced(self) -> bool:
        """Check brackets before Python does: it cannot know that we add a pair."""
        rest, before = self.value, ""
        while rest != before and "'" not in rest and '"' not in rest:
            rest, before = _PAIRS.sub("", rest), rest
        if rest == before and not _BRACKET.search(rest):
            return True
        stack: list[tuple[str, int]] = []
        quote = ""
        for i, char in enumerate(self.value):
            if quote:
                quote = "" if char == quote and self.value[i - 1] != "\\" else quote
            elif char in "'\"":
                quote = char
            elif char in "([{":
                stack.append((char, i))
            elif char in _CLOSING:
                if not stack or stack[-1][0] != _CLOSING[char]:
                    hint = f"remove it, or open it with '{_CLOSING[char]}'"
                    self.report(i, "FB0301", f"unbalanced '{char}'", hint)
                    return False
                stack.pop()
        if stack:
            char, i = stack[-1]
            closing = next(c for c, o in _CLOSING.items() if o == char)
            hint = f"close it with '{closing}'"
            if self.text.is_plain:
                hint += "; inside {...} or [...] quote an expression that contains a comma"
            self.report(i, "FB0301", f"unbalanced '{char}'", hint)
        return not stack

    def offset(self, node: Node) -> int:
        """Return the offset of a node in the text."""
        return self._offset(node.lineno, node.col_offset)

    def _offset(self, lineno: int, column: int) -> int:
        start = self._line_starts[lineno - 1]
        line = self.value[start : self._line_starts[lineno] - 1]
        column -= self._added if lineno == 1 else 0
        if not line.isascii():  # Python counts UTF-8 bytes
            column = len(line.encode()[: max(column, 0)].decode(errors="ignore"))
        return start + column

    def position(self, node: Node) -> Position:
        """Return the place of a node in the YAML file."""
        return self.text.at(self.start + self.offset(node))

    def fits(self, node: ast.Constant) -> bool:
        """Whether a literal is one in C++ too; an integer beyond 64 bits is not."""
        if not isinstance(node.value, int) or abs(node.value) < 2**63:
            return True
        self.error(node, "FB0306", "integer beyond 64 bits", "write it as a float, for example 1e30")
        return False

    def length(self, node: Node) -> int:
        """Return how many characters a node takes, as far as it stays in one line."""
        if node.end_lineno is None or node.end_col_offset is None:
            return 1
        if node.end_lineno != node.lineno:
            return self._line_starts[node.lineno] - 1 - self.offset(node)
        return node.end_col_offset - node.col_offset

    def shown(self, node: ast.expr) -> str:
        """Return the node's own text."""
        begin = self.offset(node)
        if node.end_lineno is None or node.end_col_offset is None:
            return ""
        return self.value[begin : self._offset(node.end_lineno, node.end_col_offset)]

    def report(self, offset: int, code: str, message: str, hint: str, length: int = 1) -> None:
        """Report a mistake at an offset."""
        self.collector.add(self.text.at(self.start + offset), code, message, hint, length)

    def error(
        self,
        node: Node,
        code: str,
        message: str,
        hint: str = "",
        *,
        within: ast.expr | None = None,
        group: str = "",
    ) -> None:
        """Report a mistake at a node; `within`: the whole call, where one of its arguments does not fit."""
        about = () if self.lets is None else operators_in(within or node, self.lets)
        length = self.length(node)
        self.collector.add(self.position(node), code, message, hint, length, about=about, group=group)


_OTHER_LANGUAGES = {
    "?": "write `a if condition else b`",
    "&&": "write `and`",
    "||": "write `or`",
    ";": "remove the semicolon",
    "!": "write `not`, or !=",
    "=": "write the expression alone, without a name and '='",
}


def _syntax_hint(text: str) -> str:
    found = next((hint for symbol, hint in _OTHER_LANGUAGES.items() if symbol in text), None)
    return (
        f"expressions are written as in Python: {found}" if found else "expressions are written as in Python"
    )


def operators_in(tree: ast.AST, lets: Mapping[str, str]) -> Iterator[str]:
    """Yield the names and symbols by which an expression, and the `let` behind it, calls operators."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.Name):
            yield from _WORD.findall(lets.get(node.id, ""))
        elif isinstance(node, ast.BinOp):
            yield BINARY[type(node.op)]
        elif isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
            yield UNARY[type(node.op)]
        elif isinstance(node, ast.Compare):
            yield from (COMPARE[type(op)] for op in node.ops if type(op) in COMPARE)


_WORD = re.compile(r"[A-Za-z_]\w*|[-+*/%@&|^~<>=!]+")


# By type: this is asked of every node many times, and a chain of matches takes several times longer.
_CHILDREN: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    model.Prim: attrgetter("args"),
    model.Call: attrgetter("args"),
    model.Host: attrgetter("args"),
    model.Prop: lambda expr: (expr.of,),
    model.If: attrgetter("condition", "then", "other"),
    model.Seq: attrgetter("items"),
    model.Item: lambda expr: (expr.of, expr.index),
    model.Each: lambda expr: (*expr.lists, *(() if expr.condition is None else (expr.condition,)), expr.item),
}


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct parts of an expression."""
    get = _CHILDREN.get(type(expr))
    return () if get is None else get(expr)


def map_children(expr: Expr, function: Callable[[Expr], Expr]) -> Expr:
    """Return the expression with its direct parts replaced; the same object if no part changes."""
    before = children(expr)
    if not before:
        return expr
    parts = tuple(map(function, before))
    if all(map(is_, parts, before)):  # most are: a copy costs more than the comparison, and loses its hash
        return expr
    match expr:
        case model.Prim() | model.Call() | model.Host():
            return replace(expr, args=parts)
        case model.Prop():
            return replace(expr, of=parts[0])
        case model.If():
            return replace(expr, condition=parts[0], then=parts[1], other=parts[2])
        case model.Seq():
            return replace(expr, items=parts)
        case model.Item():
            return replace(expr, of=parts[0], index=parts[1])
        case model.Each():
            count = len(expr.lists)
            test = None if expr.condition is None else parts[count]
            return replace(expr, lists=parts[:count], condition=test, item=parts[-1])
        case _:
            return expr


def names_in(expr: Expr) -> set[str]:
    """Return the variables that an expression reads."""
    if isinstance(expr, Var):
        return {expr.name}
    found: set[str] = set()
    for child in children(expr):
        found |= names_in(child)
    return found - set(expr.names) if isinstance(expr, model.Each) else found
