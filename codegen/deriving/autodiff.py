"""Gradients of pointwise operators, derived from their scalar expressions.

A derivative that one operator call can compute becomes a tensor-level formula. Any other becomes an
internal pointwise operator, computed in one pass, whose own derivative is a tensor-level formula
again: so double backward works to any order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.deriving.lowering import Lowering, internal, internal_schema, with_derivative
from codegen.deriving.symbolic import (
    NOWHERE,
    NotDifferentiable,
    count_prims,
    gradient,
    normal,
    replace_part,
    variables,
)
from codegen.language.blocks import returning
from codegen.language.overloads import TENSOR, returns_type
from codegen.language.pyexpr import map_children
from codegen.model import (
    Call,
    Derivative,
    DTypeRule,
    Expr,
    FormKind,
    Formula,
    Model,
    Number,
    Operator,
    Pointwise,
    Prim,
    Type,
    Var,
)

_NEVER = ("compare", "logical", "integral")
_INCOMING = "grad_output"  # what internal operators call the incoming gradient
_RESULT = "output"  # and the result of the forward call


def complete(model: Model) -> Model:
    """Add the formulas that pointwise operators leave out, and the internal operators they call."""
    forms = {f.name: (op, f) for op in model.operators for f in op.forms}
    lowering = Lowering(model.primitives, forms)
    operators: list[Operator] = []
    for op in model.operators:
        lowering.family = op.family
        operators.append(_completed(op, model, lowering))
        operators += lowering.made
        lowering.made.clear()
    return Model(tuple(operators), model.primitives, model.library)


def _completed(op: Operator, model: Model, lowering: Lowering) -> Operator:
    """Return the operator with a derivative; internal operators go to `lowering.made`."""
    body = op.body
    if not isinstance(body, Pointwise) or op.dtype.name in _NEVER:
        return op
    if not {"floating", "complex"} & set(op.dtype.allowed):
        return op
    given = op.derivative or Derivative((), (), ())
    covered = {name for formula in given.formulas for name in formula.args}
    wanted = [name for name in body.operands if name not in covered]
    formulas = tuple(_formula(op, body, name, lowering) for name in wanted)
    output = op.schema.returns[0].name or "result"
    forward = given.forward or ((output, "elementwise"),)
    return with_derivative(op, replace(given, formulas=given.formulas + formulas, forward=forward))


@dataclass(frozen=True, slots=True)
class _Cases:
    """The adjoint of one operand, per case of the operator."""

    exprs: tuple[Expr, ...]
    uses_result: bool

    @property
    def is_cheap(self) -> bool:
        """Whether a tensor-level formula costs one pass at most."""
        alone = len(self.exprs) == 1 and not isinstance(self.exprs[0], Number)
        return alone and count_prims(self.exprs[0]) <= 1


def _formula(op: Operator, body: Pointwise, name: str, lowering: Lowering) -> Formula:
    """Return the gradient of one operand."""
    is_complex = "complex" in op.dtype.allowed
    incoming = Var(_INCOMING, TENSOR, NOWHERE)
    adjoints: list[Expr] = []
    try:
        for _, expr in body.cases:
            adjoint = gradient(expr, name, incoming, lowering.primitives, is_complex)
            adjoints.append(normal(adjoint))
    except NotDifferentiable:
        return Formula((name,), (), True, "derived", None)
    if name not in {n for _, expr in body.cases for n in _value_variables(expr, lowering)}:
        return Formula((name,), (), False, "derived", None)  # a condition: no value flows from it
    cases = _with_result(body, tuple(adjoints))
    types: dict[str, Type] = {a.name: a.type for a in op.schema.args} | {_INCOMING: TENSOR, _RESULT: TENSOR}
    if cases.is_cheap:
        expr = lowering.lower(cases.exprs[0], types)
    else:
        fused = _fused(op, body, name, cases, types, lowering)
        expr = Call(
            fused.name,
            tuple(Var(a.name, a.type, NOWHERE) for a in fused.schema.args),
            returns_type(fused.schema),
            NOWHERE,
        )
    output = op.schema.returns[0].name or "result"
    formula = returning(_renamed(expr, {_INCOMING: "grad", _RESULT: output}))
    return Formula((name,), formula, False, "derived", None)


def _value_variables(expr: Expr, lowering: Lowering) -> set[str]:
    """The variables that are not read by conditions alone."""
    if isinstance(expr, Var):
        return {expr.name}
    if not isinstance(expr, Prim) or lowering.primitives[expr.name].result == "bool":
        return set()
    row = lowering.primitives[expr.name]
    values = [arg for arg, kind in zip(expr.args, row.args, strict=True) if kind != "bool"]
    return {name for arg in values for name in _value_variables(arg, lowering)}


def _with_result(body: Pointwise, adjoints: tuple[Expr, ...]) -> _Cases:
    """Read the forward result instead of computing it again, where that needs no further tensor."""
    output = Var(_RESULT, TENSOR, NOWHERE)
    replaced: list[Expr] = []
    for (_, expr), adjoint in zip(body.cases, adjoints, strict=True):
        computed = normal(expr)
        replaced.append(replace_part(adjoint, computed, output) if isinstance(computed, Prim) else adjoint)
    operands = set(body.operands) | {_RESULT}
    before = set().union(*map(variables, adjoints)) & operands
    after = set().union(*map(variables, replaced)) & operands
    if _RESULT in after and len(after) <= len(before):
        return _Cases(tuple(replaced), True)
    return _Cases(adjoints, False)


def _fused(
    op: Operator, body: Pointwise, name: str, cases: _Cases, types: dict[str, Type], lowering: Lowering
) -> Operator:
    """Make the internal operator that computes one gradient in one pass."""
    read = set().union(*map(variables, cases.exprs))
    operands = [_INCOMING, *(n for n in body.operands if n in read)]
    if cases.uses_result:
        operands.append(_RESULT)
    params = [n for n in body.params if n in read]
    switch = [body.switch] if body.switch is not None else []
    base = f"_{op.schema.name.base.lstrip('_')}_grad_{name}"
    schema = internal_schema(
        base, op.schema.name.overload, [(n, types[n]) for n in (*operands, *params, *switch)]
    )
    labels = [label for label, _ in body.cases]
    fused_body = Pointwise(
        body.switch, tuple(zip(labels, cases.exprs, strict=True)), tuple(operands), tuple(params)
    )
    allowed = tuple(c for c in op.dtype.allowed if c in ("floating", "complex"))
    if "floating" not in allowed:
        allowed = ("floating", *allowed)
    fused = internal(
        schema, op.family, fused_body, DTypeRule("promote", allowed), _number_overloads(op, operands)
    )
    fused = with_derivative(fused, lowering.derivative(fused))
    lowering.made.append(fused)
    return fused


def _number_overloads(op: Operator, operands: list[str]) -> list[tuple[str, ...]]:
    """The operator's own number overloads, as far as they concern these operands."""
    found: list[tuple[str, ...]] = []
    for form in op.forms:
        numbers = tuple(name for name in form.numbers if name in operands)
        if numbers and form.kind is FormKind.FUNCTIONAL and numbers not in found:
            found.append(numbers)
    return found


def _renamed(expr: Expr, names: dict[str, str]) -> Expr:
    """Give variables of a tensor-level expression the names that formulas use."""
    if isinstance(expr, Var):
        return replace(expr, name=names.get(expr.name, expr.name))
    return map_children(expr, lambda part: _renamed(part, names))
