"""The scalar level: one expression over primitives, evaluated per element in the compute type."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from codegen.language.pyexpr import BINARY, COMPARE, CONSTANTS, UNARY, Source, children
from codegen.model import BaseType, Expr, Number, Position, Prim, Primitive, Type, Var
from codegen.source.diagnostics import Collector, did_you_mean
from codegen.source.nodes import Text

_INT, _FLOAT, _BOOL, _COMPLEX = (BaseType(n) for n in ("int", "float", "bool", "complex"))


class InfixTable:
    """Which primitive an infix symbol means, by symbol and arity: the table's own `infix` fields."""

    def __init__(self, primitives: Mapping[str, Primitive]) -> None:
        self.primitives = primitives
        self._by_symbol = {(p.infix, p.arity): p.name for p in primitives.values() if p.infix}

    def find(self, symbol: str, arity: int) -> str | None:
        """Return the name of the primitive, or None when no row has this infix."""
        return self._by_symbol.get((symbol, arity))


class ScalarParser:
    """Text -> Expr of Var, Number and Prim. Mistakes go to the collector; the result is then None."""

    def __init__(
        self,
        table: InfixTable,
        variables: Mapping[str, Type],
        collector: Collector,
        reader: str,
        operator: str = "",
    ) -> None:
        self.table = table
        self.variables = variables
        self.collector = collector
        self.reader = reader  # who reads the expression, for messages: "map of silu"
        self.group = f"name {operator} " if operator else ""
        self.source: Source

    def parse(self, text: Text) -> Expr | None:
        """Parse one expression."""
        self.source = Source(text, self.collector)
        tree = self.source.tree()
        return None if tree is None else self.visit(tree)

    def visit(self, node: ast.expr) -> Expr | None:
        """Translate one node."""
        match node:
            case ast.Name():
                return self.name(node)
            case ast.Constant(value=bool() | int() | float() | complex()):
                return self.number(node)
            case ast.BinOp():
                symbol = BINARY[type(node.op)]
                return self.infix(node, symbol, (node.left, node.right))
            case ast.UnaryOp(op=ast.UAdd()):
                return self.visit(node.operand)
            case ast.UnaryOp():
                return self.infix(node, UNARY[type(node.op)], (node.operand,))
            case ast.BoolOp():
                return self.logic(node)
            case ast.Compare():
                return self.comparison(node)
            case ast.IfExp():
                return self.infix(node, "if", (node.test, node.body, node.orelse))
            case ast.Call():
                return self.call(node)
        hint = "use names, numbers, operators, `a if c else b` and calls of primitives"
        self.source.error(node, "FB0307", f"not part of scalar expressions: {type(node).__name__}", hint)
        return None

    def name(self, node: ast.Name) -> Expr | None:
        """Translate a variable or a constant."""
        position = self.source.position(node)
        type_ = self.variables.get(node.id)
        if type_ is not None:
            return Var(node.id, type_, position)
        if node.id in CONSTANTS:
            return Number(CONSTANTS[node.id], _FLOAT, position)
        candidates = [*self.variables, *CONSTANTS]
        hint = did_you_mean(node.id, candidates, "in scope")
        group = self.group and self.group + node.id
        self.source.error(node, "FB0302", f"unknown name '{node.id}' in {self.reader}", hint, group=group)
        return None

    def number(self, node: ast.Constant) -> Expr | None:
        """Translate a literal."""
        value = node.value
        assert isinstance(value, bool | int | float | complex)
        if not self.source.fits(node):
            return None
        position = self.source.position(node)
        types = {bool: _BOOL, int: _INT, float: _FLOAT, complex: _COMPLEX}
        return Number(value, types[type(value)], position)

    def infix(self, node: ast.expr, symbol: str, operands: tuple[ast.expr, ...]) -> Expr | None:
        """Apply the primitive that a symbol means."""
        name = self.table.find(symbol, len(operands))
        if name is None:
            hint = "give a primitive this `infix`, or call a primitive by name"
            self.source.error(node, "FB0303", f"no primitive is written '{symbol}'", hint)
            return None
        folded = self._negative_number(symbol, operands, node)
        return folded or self.apply(node, self.table.primitives[name], operands)

    def _negative_number(self, symbol: str, operands: tuple[ast.expr, ...], node: ast.expr) -> Expr | None:
        if symbol != "-" or len(operands) != 1 or not isinstance(operands[0], ast.Constant):
            return None
        inner = self.visit(operands[0])
        if not isinstance(inner, Number) or isinstance(inner.value, bool):
            return None
        return Number(-inner.value, inner.type, self.source.position(node))

    def logic(self, node: ast.BoolOp) -> Expr | None:
        """Translate `a and b or c`."""
        symbol = "and" if isinstance(node.op, ast.And) else "or"
        return self.fold(node, symbol, [self.visit(v) for v in node.values])

    def comparison(self, node: ast.Compare) -> Expr | None:
        """`a < b < c` is `a < b and b < c`."""
        parts: list[Expr | None] = []
        terms = [node.left, *node.comparators]
        for left, op, right in zip(terms, node.ops, terms[1:], strict=False):
            if type(op) not in COMPARE:
                hint = "use == != < <= > >="
                self.source.error(node, "FB0307", "`in` and `is` are not scalar operations", hint)
                return None
            parts.append(self.infix(node, COMPARE[type(op)], (left, right)))
        return self.fold(node, "and", parts)

    def fold(self, node: ast.expr, symbol: str, parts: list[Expr | None]) -> Expr | None:
        """Join conditions from the left."""
        known = [p for p in parts if p is not None]
        if len(known) != len(parts):
            return None
        result = self.condition(known[0]) if len(known) > 1 else known[0]
        name = self.table.find(symbol, 2)
        for part in known[1:]:
            if name is None:
                hint = "give a primitive this `infix`"
                self.source.error(node, "FB0303", f"no primitive is written '{symbol}'", hint)
                return None
            result = Prim(name, (result, self.condition(part)), self.source.position(node))
        return result

    def call(self, node: ast.Call) -> Expr | None:
        """Translate a call of a primitive."""
        if not isinstance(node.func, ast.Name):
            hint = "call a primitive: exp(x), not x.exp()"
            self.source.error(node.func, "FB0307", "only primitives can be called", hint)
            return None
        for keyword in node.keywords:
            hint = "primitives take positional arguments only"
            message = f"unexpected keyword argument '{keyword.arg}'"
            self.source.error(keyword, "FB0305", message, hint)
        primitive = self.table.primitives.get(node.func.id)
        if primitive is None:
            hint = did_you_mean(node.func.id, self.table.primitives)
            hint = hint or "add a row to codegen/primitives.yaml"
            self.source.error(node.func, "FB0303", f"unknown primitive '{node.func.id}'", hint)
            for arg in node.args:
                self.visit(arg)
            return None
        return None if node.keywords else self.apply(node, primitive, tuple(node.args))

    def apply(self, node: ast.expr, primitive: Primitive, operands: tuple[ast.expr, ...]) -> Expr | None:
        """Apply a primitive, converting operands to conditions where it wants those."""
        args = [self.visit(operand) for operand in operands]
        if len(operands) != primitive.arity:
            message = f"{primitive.name}: expected {primitive.arity} arguments, got {len(operands)}"
            names = ", ".join(f"x{i}" for i in range(primitive.arity))
            self.source.error(node, "FB0304", message, f"call {primitive.name}({names})")
            return None
        conditions = [a is not None and is_condition(a, self.table.primitives) for a in args]
        compares_conditions = primitive.result == "bool" and all(conditions)
        typed: list[Expr] = []
        for operand, arg, kind in zip(operands, args, primitive.args, strict=True):
            if arg is None:
                continue
            if kind == "bool":
                typed.append(self.condition(arg))
            elif compares_conditions or isinstance(arg, Number):
                typed.append(arg)
            elif is_condition(arg, self.table.primitives):
                message = f"{primitive.name}: expected a number, got a condition"
                hint = f"write (1 if {self.source.shown(operand)} else 0)"
                self.source.error(operand, "FB0306", message, hint)
            else:
                typed.append(arg)
        if len(typed) != len(operands):
            return None
        return Prim(primitive.name, tuple(typed), self.source.position(node))

    def condition(self, expr: Expr) -> Expr:
        """A number counts as true when it is not zero."""
        name = self.table.find("!=", 2)
        if name is None or is_condition(expr, self.table.primitives):
            return expr
        zero = Number(0, _INT, expr.position)
        return Prim(name, (expr, zero), expr.position)


def is_condition(expr: Expr, primitives: Mapping[str, Primitive]) -> bool:
    """Whether the expression yields bool rather than the compute type."""
    if isinstance(expr, Number):
        return isinstance(expr.value, bool)
    return isinstance(expr, Prim) and primitives[expr.name].result == "bool"


def _is_real(expr: Expr, primitives: Mapping[str, Primitive]) -> bool:
    """Whether the value is real in loops over complex numbers too."""
    if isinstance(expr, Number):
        return not isinstance(expr.value, complex)
    if not isinstance(expr, Prim):
        return False
    result = primitives[expr.name].result
    return result != "same" or all(_is_real(arg, primitives) for arg in expr.args)


DOMAINS = ("bool", "integral", "floating", "complex")


def domains(expr: Expr, primitives: Mapping[str, Primitive]) -> tuple[set[str], dict[str, Position]]:
    """Return the dtype categories in which every part is defined, and who excludes the others.

    The second result maps an excluded category to the place of the first part that excludes it.
    """
    allowed = set(DOMAINS)
    excluded: dict[str, Position] = {}
    here: set[str] = allowed
    if isinstance(expr, Prim):
        here = set(primitives[expr.name].domains)
        if "floating" in here and all(_is_real(arg, primitives) for arg in expr.args):
            here.add("complex")  # which its operands have left
    elif isinstance(expr, Number) and isinstance(expr.value, complex):
        here = {"complex"}
    elif isinstance(expr, Number) and isinstance(expr.value, float):
        here = {"floating", "complex"}
    for category in allowed - here:
        excluded[category] = expr.position
    allowed = allowed & here
    for child in children(expr):
        inner, inner_excluded = domains(child, primitives)
        allowed &= inner
        for category, position in inner_excluded.items():
            excluded.setdefault(category, position)
    return allowed, excluded
