"""The sound part of a specification: what can be built while some entries still have mistakes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from codegen.language import raw_cpp
from codegen.language.pyexpr import children
from codegen.model import Call, Composite, Expr, Operator, Position, Reduce
from codegen.source.diagnostics import Diagnostic


def forms_called(expr: Expr) -> set[str]:
    """Return the operator forms that an expression calls."""
    found = {expr.form} if isinstance(expr, Call) else set()
    for child in children(expr):
        found |= forms_called(child)
    return found


def dependencies(operator: Operator, forms: Iterable[str]) -> set[str]:
    """Return the forms that the operator's expressions, formulas and raw C++ call."""
    exprs: list[Expr] = []
    raw: set[str] = set()
    if isinstance(operator.body, Composite) and operator.body.cpp is not None:
        raw = raw_cpp.forms_called(operator.body.cpp, forms)
    if isinstance(operator.body, Composite) and operator.body.expr is not None:
        exprs.append(operator.body.expr)
    if isinstance(operator.body, Reduce):
        exprs += [expr for _, expr in operator.body.let]
    exprs += [rule.expr for rule in operator.batching if rule.expr is not None]
    if operator.derivative is not None:
        exprs += [f.expr for f in operator.derivative.formulas if f.expr is not None]
        exprs += [rule for _, rule in operator.derivative.forward if not isinstance(rule, str)]
    return raw.union(*(forms_called(expr) for expr in exprs))


def sound_operators(
    operators: Iterable[Operator],
    found: Sequence[Diagnostic],
    entries: Iterable[tuple[str, Position]],
) -> tuple[Operator, ...]:
    """Drop operators whose entries hold a mistake, and those that depend on them.

    `entries` says which operator each entry of either file belongs to.
    """
    starts: dict[str, list[tuple[int, str]]] = {}
    for name, position in entries:
        starts.setdefault(position.file, []).append((position.line, name))
    faulty: set[str] = set()
    for diagnostic in found:
        lines = sorted(starts.get(diagnostic.file, []))
        index = bisect_right(lines, diagnostic.line, key=lambda pair: pair[0]) - 1
        if index >= 0:
            faulty.add(lines[index][1])
    every = tuple(operators)
    names = tuple(form.name for op in every for form in op.forms)
    kept = [op for op in every if op.name not in faulty]
    while True:
        forms = {form.name for op in kept for form in op.forms}
        sound = [op for op in kept if dependencies(op, names) <= forms]
        if len(sound) == len(kept):
            return tuple(sound)
        kept = sound
