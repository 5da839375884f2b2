"""Which operator forms an expression or a whole operator calls."""

from __future__ import annotations

from codegen.language.blocks import expressions
from codegen.language.pyexpr import children
from codegen.model import Call, Composite, Expr, Operator, Reduce


def forms_called(expr: Expr) -> set[str]:
    """Return the operator forms that an expression calls."""
    found = {expr.form} if isinstance(expr, Call) else set()
    for child in children(expr):
        found |= forms_called(child)
    return found


def dependencies(operator: Operator) -> set[str]:
    """Return the forms that the operator's expressions and formulas call."""
    exprs: list[Expr] = []
    if isinstance(operator.body, Composite):
        exprs += expressions(operator.body.statements)
    if isinstance(operator.body, Reduce):
        exprs += [expr for _, expr in operator.body.let]
    exprs += [rule.expr for rule in operator.batching if rule.expr is not None]
    if operator.derivative is not None:
        exprs += [f.expr for f in operator.derivative.formulas if f.expr is not None]
        exprs += [rule for _, rule in operator.derivative.forward if not isinstance(rule, str)]
    return set().union(*(forms_called(expr) for expr in exprs))
