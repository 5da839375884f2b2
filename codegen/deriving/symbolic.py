"""Algebra on scalar expressions: simplifying constructors and reverse-mode differentiation.

A gradient is carried as an adjoint expression that starts as the variable of the incoming gradient.
Products with a choice that has a literal 0 move into the choice, so that `where(c, g * d, 0)` comes
out and never `g * where(c, d, 0)`: the latter gives NaN where d is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from codegen.model import BaseType, Expr, Number, Position, Prim, Primitive, Var

NOWHERE = Position("", 0, 0)
_CONDITIONS = frozenset(
    "eq ne lt le gt ge logical_and logical_or logical_not isnan isinf isfinite signbit".split()
)
_TYPES = {bool: "bool", int: "int", float: "float", complex: "complex"}

Value = bool | int | float | complex


def number(value: Value) -> Number:
    """Return a literal."""
    return Number(value, BaseType(_TYPES[type(value)]), NOWHERE)


def is_number(expr: Expr, *values: Value) -> bool:
    """Whether the expression is a literal number (one of `values`, if any are given)."""
    if not isinstance(expr, Number) or isinstance(expr.value, bool):
        return False
    return not values or expr.value in values


def variables(expr: Expr) -> set[str]:
    """Return the names that a scalar expression reads."""
    if isinstance(expr, Var):
        return {expr.name}
    if isinstance(expr, Prim):
        return {name for arg in expr.args for name in variables(arg)}
    return set()


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Replace variables; the result is simplified."""
    if isinstance(expr, Var):
        return values.get(expr.name, expr)
    if isinstance(expr, Prim):
        return simplify(expr.name, tuple(substitute(arg, values) for arg in expr.args))
    return expr


def replace_part(expr: Expr, part: Expr, by: Expr) -> Expr:
    """Replace every occurrence of a subexpression."""
    if expr == part:
        return by
    if isinstance(expr, Prim):
        return Prim(expr.name, tuple(replace_part(arg, part, by) for arg in expr.args), NOWHERE)
    return expr


def normal(expr: Expr) -> Expr:
    """Simplify throughout, so that equal parts of different expressions compare equal."""
    return substitute(expr, {})


def count_prims(expr: Expr) -> int:
    """Return how many primitives are applied."""
    if not isinstance(expr, Prim):
        return 0
    return 1 + sum(count_prims(arg) for arg in expr.args)


# --- simplification ------------------------------------------------------------------------------


def simplify(name: str, args: tuple[Expr, ...]) -> Expr:
    """Return the primitive applied to simplified arguments, simplified."""
    rule = _RULES.get(name)
    result = rule(*args) if rule else None
    return Prim(name, args, NOWHERE) if result is None else result


def _value(expr: Expr) -> Value:
    assert isinstance(expr, Number)
    return expr.value


def _add(a: Expr, b: Expr) -> Expr | None:
    if is_number(a) and is_number(b):
        return number(_value(a) + _value(b))
    if is_number(a):
        return simplify("add", (b, a))  # numbers stand on the right
    if is_number(b, 0):
        return a
    if isinstance(b, Prim) and b.name == "neg":
        return simplify("sub", (a, b.args[0]))
    if isinstance(a, Prim) and a.name == "neg":
        return simplify("sub", (b, a.args[0]))
    return _merged_choices("add", a, b)


def _sub(a: Expr, b: Expr) -> Expr | None:
    if is_number(a) and is_number(b):
        return number(_value(a) - _value(b))
    if is_number(b, 0):
        return a
    if is_number(a, 0):
        return simplify("neg", (b,))
    if isinstance(b, Prim) and b.name == "neg":
        return simplify("add", (a, b.args[0]))
    return _merged_choices("sub", a, b)


def _merged_choices(name: str, a: Expr, b: Expr) -> Expr | None:
    """`where(c, x, 0) + where(c, 0, y)` is `where(c, x, y)`."""
    choices = [e for e in (a, b) if isinstance(e, Prim) and e.name == "where"]
    if len(choices) < 2 or choices[0].args[0] != choices[1].args[0]:
        return None
    sides = zip(choices[0].args[1:], choices[1].args[1:], strict=True)
    return simplify("where", (choices[0].args[0], *(simplify(name, pair) for pair in sides)))


def _neg(a: Expr) -> Expr | None:
    if is_number(a):
        return number(-_value(a))
    if isinstance(a, Prim) and a.name == "neg":
        return a.args[0]
    return _into_choice(a, lambda part: simplify("neg", (part,)))


def _mul(a: Expr, b: Expr) -> Expr | None:
    if is_number(a) and is_number(b):
        return number(_value(a) * _value(b))
    if is_number(a):
        return simplify("mul", (b, a))
    if is_number(b, 0):
        return b
    if is_number(b, 1):
        return a
    if is_number(b, -1):
        return simplify("neg", (a,))
    if isinstance(a, Prim) and a.name == "neg":
        return simplify("neg", (simplify("mul", (a.args[0], b)),))
    if isinstance(b, Prim) and b.name == "neg":
        return simplify("neg", (simplify("mul", (a, b.args[0])),))
    if is_number(b) and isinstance(a, Prim) and a.name == "mul" and is_number(a.args[1]):
        return simplify("mul", (a.args[0], number(_value(a.args[1]) * _value(b))))
    if isinstance(b, Prim) and b.name in ("div", "reciprocal"):
        numerator, denominator = b.args if b.name == "div" else (number(1), b.args[0])
        if is_number(numerator):
            return simplify("div", (simplify("mul", (a, numerator)), denominator))
    inside = _into_choice(b, lambda part: simplify("mul", (a, part)))
    return inside or _into_choice(a, lambda part: simplify("mul", (part, b)))


def _div(a: Expr, b: Expr) -> Expr | None:
    if is_number(b, 1) or is_number(a, 0):
        return a
    if is_number(a) and is_number(b) and not is_number(b, 0):
        return number(_value(a) / _value(b))
    if is_number(a):
        return simplify("mul", (simplify("reciprocal", (b,)), a))
    if isinstance(a, Prim) and a.name == "neg":
        return simplify("neg", (simplify("div", (a.args[0], b)),))
    return _into_choice(a, lambda part: simplify("div", (part, b)))


def _pow(a: Expr, b: Expr) -> Expr | None:
    if is_number(b, 1):
        return a
    return number(1) if is_number(b, 0) else None


def _conj(a: Expr) -> Expr | None:
    if isinstance(a, Number):
        return number(a.value.conjugate()) if isinstance(a.value, complex) else a
    if isinstance(a, Prim) and a.name == "conj":
        return a.args[0]
    if isinstance(a, Prim) and a.name == "neg":
        return simplify("neg", (simplify("conj", a.args),))
    return _into_choice(a, lambda part: simplify("conj", (part,)), always=True)


def _where(condition: Expr, then: Expr, other: Expr) -> Expr | None:
    if then == other:
        return then
    if isinstance(condition, Number):
        return then if condition.value else other
    if isinstance(then, Prim) and then.name == "where" and then.args[0] == condition:
        return simplify("where", (condition, then.args[1], other))
    if isinstance(other, Prim) and other.name == "where" and other.args[0] == condition:
        return simplify("where", (condition, then, other.args[2]))
    return None


def _not(a: Expr) -> Expr | None:
    return number(not a.value) if isinstance(a, Number) else None


def _same_literals(compare: Callable[[Value, Value], bool]) -> Callable[[Expr, Expr], Expr | None]:
    def fold(a: Expr, b: Expr) -> Expr | None:
        both = isinstance(a, Number) and isinstance(b, Number)
        return number(compare(_value(a), _value(b))) if both else None

    return fold


def _ne(a: Expr, b: Expr) -> Expr | None:
    if isinstance(a, Prim) and a.name in _CONDITIONS and isinstance(b, Number) and not b.value:
        return a  # a condition that was taken for a number
    return _same_literals(lambda x, y: x != y)(a, b)


def _into_choice(expr: Expr, apply: Callable[[Expr], Expr], always: bool = False) -> Expr | None:
    """Apply to both sides of a choice, if one side (at any depth) is a literal 0."""
    if isinstance(expr, Prim) and expr.name == "where" and (always or _has_zero_side(expr)):
        condition, then, other = expr.args
        return simplify("where", (condition, apply(then), apply(other)))
    return None


def _has_zero_side(expr: Expr) -> bool:
    if isinstance(expr, Prim) and expr.name == "where":
        return any(_has_zero_side(side) for side in expr.args[1:])
    return is_number(expr, 0)


_RULES: dict[str, Callable[..., Expr | None]] = {
    "add": _add,
    "sub": _sub,
    "neg": _neg,
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "conj": _conj,
    "where": _where,
    "logical_not": _not,
    "eq": _same_literals(lambda a, b: a == b),
    "ne": _ne,
}


# --- differentiation -----------------------------------------------------------------------------


class NotDifferentiable(Exception):
    """A part has no derivative: the name of the primitive."""


def gradient(
    expr: Expr, wrt: str, adjoint: Expr, primitives: Mapping[str, Primitive], is_complex: bool
) -> Expr:
    """Return what reaches `wrt` of the adjoint of `expr`; a literal 0 when nothing does.

    `is_complex`: values may be complex, so that factors are conjugated.
    """
    if isinstance(expr, Var):
        return adjoint if expr.name == wrt else number(0)
    if not isinstance(expr, Prim) or wrt not in variables(expr):
        return number(0)
    row = primitives[expr.name]
    if row.result == "bool":
        return number(0)
    total: Expr = number(0)
    for i, (arg, partial) in enumerate(zip(expr.args, row.partials, strict=True)):
        if wrt not in variables(arg) or row.args[i] == "bool":
            continue
        if partial is None:
            raise NotDifferentiable(expr.name)
        inner = _through(row, partial, expr.args, adjoint, is_complex)
        total = simplify("add", (total, gradient(arg, wrt, inner, primitives, is_complex)))
    return total


def _through(row: Primitive, partial: Expr, args: tuple[Expr, ...], adjoint: Expr, is_complex: bool) -> Expr:
    """Return the adjoint of one argument of a primitive."""
    if row.name == "conj":  # the one primitive that is not a function of its argument alone
        return simplify("conj", (adjoint,)) if is_complex else adjoint
    factor = substitute(partial, {f"x{i}": arg for i, arg in enumerate(args)})
    if is_complex:
        factor = simplify("conj", (factor,))
    elif isinstance(factor, Prim):
        factor = _without_conj(factor)
    return simplify("mul", (adjoint, factor))


def _without_conj(expr: Expr) -> Expr:
    if isinstance(expr, Prim):
        args = tuple(_without_conj(arg) for arg in expr.args)
        return args[0] if expr.name == "conj" else simplify(expr.name, args)
    return expr
