"""Walks over lists: `for x in xs`, `for a, b in zip(xs, ys)`, `for i, x in enumerate(xs)`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from codegen.language.overloads import BOOL, INTS, AnyType, show, type_of
from codegen.language.pyexpr import Source
from codegen.language.scope import Scope
from codegen.model import Each, Expr, Host, ListType, TupleType


class Reader(Protocol):
    """What a walk needs of the parser of expressions."""

    source: Source
    scope: Scope

    def visit(self, node: ast.expr) -> Expr | None:
        """Translate one node."""

    def visit_all(self, nodes: Sequence[ast.expr]) -> list[Expr] | None:
        """Translate all nodes."""


@dataclass(frozen=True, slots=True)
class Walk:
    """The names that one step of a walk gives values, and the lists that it takes them from."""

    names: tuple[str, ...]
    types: tuple[AnyType, ...]
    lists: tuple[Expr, ...]


def walk(parser: Reader, target: ast.expr, iterated: ast.expr) -> Walk | None:
    """Read the head of a `for`; its names must be new."""
    lists = _lists(parser, iterated)
    if lists is None:
        return None
    targets = list(target.elts) if isinstance(target, ast.Tuple) else [target]
    names = [node.id for node in targets if isinstance(node, ast.Name)]
    if len(names) != len(lists) or len(targets) != len(lists) or len(set(names)) != len(names):
        hint = "write `for x in list`, `for a, b in zip(x, y)` or `for i, x in enumerate(list)`"
        message = f"expected {len(lists)} names for {len(lists)} lists"
        parser.source.error(target, "FB0304", message, hint)
        return None
    for node, name in zip(targets, names, strict=True):
        if name in parser.scope.variables:
            parser.source.error(node, "FB0108", f"'{name}' is already defined here", "choose a new name")
            return None
    types = []
    for expr in lists:
        type_ = type_of(expr)
        if not isinstance(type_, ListType):
            hint = "walk over lists and shapes; for the parts of a Tensor call unbind"
            parser.source.error(iterated, "FB0306", f"cannot walk over {show(type_)}", hint)
            return None
        types.append(type_.elem)
    return Walk(tuple(names), tuple(types), tuple(lists))


def _lists(parser: Reader, node: ast.expr) -> list[Expr] | None:
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if isinstance(node, ast.Call) and name == "zip" and len(node.args) > 1 and not node.keywords:
        return parser.visit_all(node.args)
    if isinstance(node, ast.Call) and name == "enumerate" and len(node.args) == 1 and not node.keywords:
        only = parser.visit(node.args[0])
        if only is None:
            return None
        position = parser.source.position(node)
        return [Host("indices", (only,), INTS, position), only]
    only = parser.visit(node)
    return None if only is None else [only]


def comprehension(parser: Reader, node: ast.ListComp) -> Expr | None:
    """Translate `[item for x in list if condition]`."""
    first = node.generators[0]
    if len(node.generators) > 1 or first.is_async or len(first.ifs) > 1:
        hint = "use one `for` with at most one `if`"
        parser.source.error(node, "FB0307", "comprehension with several parts", hint)
        return None
    found = walk(parser, first.target, first.iter)
    if found is None:
        return None
    outer = parser.scope
    inner = dict(outer.variables) | dict(zip(found.names, found.types, strict=True))
    parser.scope = replace(outer, variables=inner)
    condition = parser.visit(first.ifs[0]) if first.ifs else None
    item = parser.visit(node.elt)
    parser.scope = outer
    if item is None or (first.ifs and condition is None):
        return None
    if condition is not None and type_of(condition) != BOOL:
        message = f"the condition of a comprehension is bool, got {show(type_of(condition))}"
        parser.source.error(first.ifs[0], "FB0306", message, "compare it, for example != 0")
        return None
    type_ = type_of(item)
    if isinstance(type_, TupleType | ListType):
        hint = "make lists of Tensors, numbers or bools"
        parser.source.error(node.elt, "FB0306", f"a list cannot hold {show(type_)}", hint)
        return None
    return Each(found.names, found.lists, condition, item, ListType(type_), parser.source.position(node))
