"""Which operator forms an expression or a whole operator calls."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.language.blocks import expressions
from codegen.language.pyexpr import children
from codegen.model import Call, Composite, Expr, Operator, Reduce, Statement


def forms_called(expr: Expr) -> set[str]:
    """Return the operator forms that an expression calls."""
    found = {expr.form} if isinstance(expr, Call) else set()
    for child in children(expr):
        found |= forms_called(child)
    return found


def body_calls(statements: Sequence[Statement]) -> set[str]:
    """Return the operator forms that a function body calls."""
    return set().union(*map(forms_called, expressions(statements)))


def dependencies(operator: Operator) -> set[str]:
    """Return the forms that the operator's expressions and formulas call."""
    exprs: list[Expr] = []
    if isinstance(operator.body, Composite):
        exprs += expressions(operator.body.statements)
    if isinstance(operator.body, Reduce):
        exprs += [expr for _, expr in operator.body.let]
    bodies = [rule.body for rule in operator.batching]
    if operator.derivative is not None:
        bodies += [formula.body for formula in operator.derivative.formulas]
        bodies += [rule for _, rule in operator.derivative.forward if not isinstance(rule, str)]
    return set().union(*map(forms_called, exprs), *map(body_calls, bodies))
