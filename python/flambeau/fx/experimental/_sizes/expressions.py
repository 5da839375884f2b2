"""Expressions in sizes, over sympy: the functions that sympy lacks, evaluation, proofs from bounds.

Only modules that hold expressions import this one, when the first `ShapeEnv` is made, because sympy is large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import sympy  # type: ignore[import-untyped]

Expr = Any  # sympy ships no types


class FloorDiv(sympy.Function):  # type: ignore[misc]
    """The quotient of two integers, rounded down."""

    is_integer = True
    precedence = 50

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr:
        """Return a simpler expression, or None."""
        if a.is_Integer and b.is_Integer and b != 0:
            return sympy.Integer(int(a) // int(b))
        if b == 1:
            return a
        quotient = sympy.expand(sympy.cancel(a / b))
        return quotient if _is_whole(quotient) else None

    def _sympystr(self, printer: Any) -> str:
        return f"({_atom(printer, self.args[0])}//{_atom(printer, self.args[1])})"

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.args[0].is_nonnegative and self.args[1].is_positive else None


class Mod(sympy.Function):  # type: ignore[misc]
    """The remainder of two integers, with the sign of the divisor."""

    is_integer = True

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr:
        """Return a simpler expression, or None."""
        if a.is_Integer and b.is_Integer and b != 0:
            return sympy.Integer(int(a) % int(b))
        if b == 1 or a == b:
            return sympy.Integer(0)
        return sympy.Integer(0) if FloorDiv(a, b) * b == sympy.expand(a) else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.args[1].is_positive else None


class IntTrueDiv(sympy.Function):  # type: ignore[misc]
    """The quotient of two integers, as a floating-point number."""

    is_real = True

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr:
        """Return a number for two numbers, or None."""
        return sympy.Float(int(a) / int(b)) if a.is_Integer and b.is_Integer and b != 0 else None


def _rounding(name: str, compute: Callable[[float], int]) -> Any:
    def evaluate(cls: Any, a: Expr) -> Expr:
        if a.is_integer:
            return a
        return sympy.Integer(compute(float(a))) if a.is_number else None

    members = {"eval": classmethod(evaluate), "is_integer": True, "__doc__": f"{name} of a real number."}
    return type(name, (sympy.Function,), members)


FloorToInt = _rounding("FloorToInt", math.floor)
CeilToInt = _rounding("CeilToInt", math.ceil)
TruncToInt = _rounding("TruncToInt", math.trunc)
RoundToInt = _rounding("RoundToInt", round)


class ToFloat(sympy.Function):  # type: ignore[misc]
    """An integer as a floating-point number."""

    is_real = True

    @classmethod
    def eval(cls, a: Expr) -> Expr:
        """Return a number for a number, or None."""
        return sympy.Float(float(a)) if a.is_number else None


def _atom(printer: Any, e: Expr) -> str:
    text = printer._print(e)
    return text if e.is_Atom else f"({text})"


def _is_whole(e: Expr) -> bool:
    """Return whether an expression is a sum of products of integers."""
    terms = (term.as_coeff_Mul() for term in sympy.Add.make_args(e))
    return all(
        number.is_Integer
        and all(f.is_integer and not (f.is_Pow and f.exp.is_negative) for f in sympy.Mul.make_args(factors))
        for number, factors in terms
    )


PYTHON_NAMES: dict[str, Any] = {
    "FloorDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "IntTrueDiv": lambda a, b: a / b,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "TruncToInt": math.trunc,
    "RoundToInt": round,
    "ToFloat": float,
    "Max": max,
    "Min": min,
    "sqrt": math.sqrt,
}
_compiled: dict[Expr, tuple[tuple[Expr, ...], Any]] = {}


def evaluate(e: Expr, values: Mapping[Expr, Any]) -> Any:
    """Return the Python number or bool that an expression has.

    Args:
        e: the expression.
        values: symbol -> number.
    Raises: KeyError for a symbol without a value, ZeroDivisionError.
    """
    found = _compiled.get(e)
    if found is None:
        symbols = tuple(sorted(e.free_symbols, key=str))
        found = _compiled[e] = symbols, sympy.lambdify(symbols, e, modules=[PYTHON_NAMES, "math"])
    result = found[1](*[values[s] for s in found[0]])
    return bool(result) if is_condition(e) else result


def is_condition(e: Expr) -> bool:
    """Return whether an expression is true or false, and not a number."""
    kinds = sympy.logic.boolalg.BooleanAtom, sympy.logic.boolalg.BooleanFunction
    return bool(e.is_Relational) or isinstance(e, kinds)


def constant(value: Any) -> Expr:
    """Return the expression of a Python number or bool."""
    if isinstance(value, bool):
        return sympy.true if value else sympy.false
    return sympy.Integer(value) if isinstance(value, int) else sympy.Float(value)


def size_symbol(name: str, *, is_float: bool = False, positive: bool = False) -> Expr:
    """Return a new symbol."""
    if is_float:
        return sympy.Symbol(name, real=True)
    return sympy.Symbol(name, integer=True, **({"positive": True} if positive else {}))


def proven(condition: Expr, bounds: Mapping[Expr, tuple[Any, Any]]) -> bool | None:
    """Return the truth of a condition if the bounds of its symbols determine it; None otherwise.

    Args:
        condition: a boolean expression.
        bounds: symbol -> (least value, greatest value); either may be None.
    """
    if condition in (sympy.true, sympy.false):
        return bool(condition)
    if isinstance(condition, sympy.Not):
        inner = proven(condition.args[0], bounds)
        return None if inner is None else not inner
    if isinstance(condition, sympy.And | sympy.Or):
        parts = [proven(part, bounds) for part in condition.args]
        decisive = isinstance(condition, sympy.Or)
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    if not isinstance(condition, sympy.core.relational.Relational):
        return None
    difference = sympy.expand(condition.lhs - condition.rhs)
    for end in (0, 1):
        moved = {}
        for s in difference.free_symbols:
            limit = bounds.get(s, (None, None))[end]
            if limit is not None:
                t = sympy.Symbol(f"{s}_", integer=True, nonnegative=True)
                moved[s] = limit + t if end == 0 else limit - t
        found = condition.func(sympy.expand(difference.subs(moved)), 0)
        if found in (sympy.true, sympy.false):
            return bool(found)
    return None


def readable(condition: Expr) -> Expr:
    """Return a relation with its number on the right."""
    if isinstance(condition, sympy.core.relational.Relational) and condition.lhs.is_number:
        return condition.reversed
    return condition


def solved(equality: Expr) -> tuple[Expr, Expr] | None:
    """Return (symbol, expression of integers) if an equality gives a symbol; None otherwise."""
    difference = sympy.expand(equality.lhs - equality.rhs)
    for s in sorted(difference.free_symbols, key=lambda s: (len(s.name), s.name), reverse=True):
        coefficient = difference.coeff(s, 1)
        rest = sympy.expand(difference - coefficient * s)
        if coefficient in (1, -1) and s not in rest.free_symbols:
            return s, -rest * coefficient
        if not rest.free_symbols and coefficient.is_Integer and rest % coefficient == 0:
            return s, -rest / coefficient
    return None


def negated(condition: Expr) -> Expr:
    """Return the condition that holds where another does not."""
    return readable(sympy.Not(condition))


def bound(condition: Expr) -> tuple[Expr, Any, Any] | None:
    """Return (symbol, least value or None, greatest value or None) of a condition on one symbol.

    Args:
        condition: a relation between one symbol and an integer; None is returned for others.
    """
    if not isinstance(condition, sympy.core.relational.Relational):
        return None
    condition = readable(condition)
    s, n = condition.lhs, condition.rhs
    if not (s.is_Symbol and n.is_Integer):
        return None
    number, kind = int(n), condition.rel_op
    lower = {">=": number, ">": number + 1, "==": number}.get(kind)
    upper = {"<=": number, "<": number - 1, "==": number}.get(kind)
    return None if lower is None and upper is None else (s, lower, upper)


def python_text(e: Expr) -> str:
    """Return an expression as Python code over `PYTHON_NAMES`."""
    return str(sympy.pycode(e, fully_qualified_modules=False, user_functions={n: n for n in PYTHON_NAMES}))


def _divide(a: Expr, b: Expr) -> Expr:
    _refuse_zero(b)
    return IntTrueDiv(a, b) if a.is_integer and b.is_integer else a / b


def _remainder(a: Expr, b: Expr) -> Expr:
    _refuse_zero(b)
    return Mod(a, b) if a.is_integer and b.is_integer else a - b * FloorToInt(a / b)


def _refuse_zero(divisor: Expr) -> None:
    if divisor.is_zero:
        raise ZeroDivisionError("division by zero")


def _floor_divide(a: Expr, b: Expr) -> Expr:
    _refuse_zero(b)
    return FloorDiv(a, b) if a.is_integer and b.is_integer else ToFloat(FloorToInt(a / b))


OPERATIONS: dict[str, Callable[..., Expr]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "truediv": _divide,
    "floordiv": _floor_divide,
    "mod": _remainder,
    "pow": lambda a, b: a**b,
    "neg": lambda a: -a,
    "abs": sympy.Abs,
    "eq": sympy.Eq,
    "ne": sympy.Ne,
    "lt": sympy.Lt,
    "le": sympy.Le,
    "gt": sympy.Gt,
    "ge": sympy.Ge,
    "and_": sympy.And,
    "or_": sympy.Or,
    "sym_not": sympy.Not,
    "sym_max": sympy.Max,
    "sym_min": sympy.Min,
    "sym_float": ToFloat,
    "sym_sqrt": sympy.sqrt,
    "floor": FloorToInt,
    "ceil": CeilToInt,
    "trunc": TruncToInt,
    "round": RoundToInt,
    "sym_ite": lambda c, a, b: sympy.Piecewise((a, c), (b, True)),
}
