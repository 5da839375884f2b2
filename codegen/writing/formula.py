"""Expressions in mathematical notation, for documentation: `x^2`, `e^x`, `|x|`, `a if x > 0 else b`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from codegen.language.blocks import sole_value
from codegen.language.show import show, show_body
from codegen.model import (
    Call,
    Expr,
    Formula,
    Model,
    Number,
    Operator,
    Pointwise,
    Prim,
    Primitive,
    Reduce,
    Var,
)

_PLACE = re.compile(r"\{(\d)\}")
_SIGNS = {"**": "^", "not": "not "}
# How tightly a notation binds: a whole text without operators outside brackets is an atom.
_ATOM, _POWER, _FACTOR, _TERM, _LOOSE = 4, 3, 2, 1, 0
_LEVELS = {"**": _POWER, "*": _FACTOR, "/": _FACTOR, "//": _FACTOR, "%": _FACTOR, "+": _TERM, "-": _TERM}
_COMBINED = {"sum": "sum of {}", "prod": "product of {}", "max": "max of {}", "min": "min of {}"}


class Notation:
    """Writes scalar expressions; `names` replaces variables."""

    def __init__(self, primitives: Mapping[str, Primitive], names: Mapping[str, str] | None = None) -> None:
        self._primitives, self._names = primitives, names or {}

    def show(self, expr: Expr) -> str:
        """Return an expression in mathematical notation."""
        return self._show(expr)[0]

    def _show(self, expr: Expr) -> tuple[str, int]:
        if isinstance(expr, Var):
            return self._names.get(expr.name, expr.name), _ATOM
        if isinstance(expr, Number):
            return _number(expr.value)
        assert isinstance(expr, Prim)
        row = self._primitives[expr.name]
        if row.math is not None:
            return self._filled(row.math, expr)
        if row.infix == "if":
            condition, then, other = map(self.show, expr.args)
            return f"{then} if {condition} else {other}", _LOOSE
        if row.infix is None:
            return f"{expr.name}({', '.join(map(self.show, expr.args))})", _ATOM
        return self._infix(row.infix, expr)

    def _infix(self, symbol: str, expr: Prim) -> tuple[str, int]:
        if len(expr.args) == 1:
            return f"{_SIGNS.get(symbol, symbol)}{self._within(expr.args[0], _POWER)}", _TERM
        level = _LEVELS.get(symbol, _LOOSE)
        left = self._within(expr.args[0], level + (symbol == "**" or level == _LOOSE))
        right = self._within(expr.args[1], level + 1)
        sign = _SIGNS.get(symbol, f" {symbol} ")
        return f"{left}{sign}{right}", level

    def _within(self, expr: Expr, level: int) -> str:
        text, own = self._show(expr)
        return text if own >= level else f"({text})"

    def _filled(self, math: str, expr: Prim) -> tuple[str, int]:
        """Fill in a notation: what stands between brackets or bars there needs none of its own."""

        def filled(match: re.Match[str]) -> str:
            before, after = math[: match.start()], math[match.end() :]
            enclosed = before.endswith(("(", "|", ", ")) and after.startswith((")", "|", ","))
            arg = expr.args[int(match[1])]
            return self.show(arg) if enclosed else self._within(arg, _ATOM)

        return _PLACE.sub(filled, math), level_of(math)


def _number(value: object) -> tuple[str, int]:
    text = repr(value).removesuffix(".0")
    return text, _TERM if text.startswith("-") else _ATOM


def level_of(text: str) -> int:
    """Return how tightly a notation binds: by the loosest sign outside brackets."""
    bare = text
    while (shorter := re.sub(r"\([^()]*\)|\|[^|]*\|", "#", bare)) != bare:
        bare = shorter
    if re.search(r"(?<=.) [+-] |^-", bare):
        return _TERM
    if re.search(r" [*/] ", bare):
        return _FACTOR
    return _POWER if "^" in bare else _ATOM


def formulas(op: Operator, primitives: Mapping[str, Primitive]) -> tuple[str, ...]:
    """Return the definition of an operator: the entry's own, else that of its scalar expression."""
    if op.doc.formula:
        return (op.doc.formula,)
    notation = Notation(primitives)
    if isinstance(op.body, Pointwise):
        return tuple(
            f"result = {notation.show(expr)}" + (f", for {op.body.switch}={case!r}" if case else "")
            for case, expr in op.body.cases
        )
    if isinstance(op.body, Reduce) and op.body.combine in _COMBINED:
        mapped = notation.show(op.body.map)
        acc = _COMBINED[op.body.combine].format(f"({mapped})" if " " in mapped else mapped)
        return (
            f"result = {Notation(primitives, {'acc': f'({acc})'}).show(op.body.finish)}".replace(
                f"= ({acc})", f"= {acc}"
            ),
        )
    return ()


def gradients(op: Operator, model: Model) -> tuple[str, ...]:
    """Return a line for each argument that has a gradient."""
    if op.derivative is None:
        return ()
    return tuple(_gradient(formula, model) for formula in op.derivative.formulas if _is_told(formula))


def _is_told(formula: Formula) -> bool:
    return formula.not_implemented or bool(formula.body)


def _gradient(formula: Formula, model: Model) -> str:
    names = ", ".join(formula.args)
    if formula.not_implemented:
        return f"{names}: not implemented"
    value = sole_value(formula.body)
    if value is not None:
        return f"{names}: {_expanded(value, model)}"
    return f"{names}: {'; '.join(line.strip() for line in show_body(formula.body))}"


def _expanded(expr: Expr, model: Model) -> str:
    """Return a formula; a call of a generated operator as the expression that it computes."""
    if isinstance(expr, Call) and model.find(expr.form) is not None:
        op = model.form(expr.form)[0]
        if op.internal and isinstance(op.body, Pointwise) and len(op.body.cases) == 1:
            given = {arg.name: show(value) for arg, value in zip(op.schema.args, expr.args, strict=False)}
            return Notation(model.primitives, given).show(op.body.cases[0][1])
    return show(expr)
