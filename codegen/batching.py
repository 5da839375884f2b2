"""The batching rules of each dispatcher entry: given by `vmap`, or derived from how the operator computes."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.forms import tensor_args
from codegen.model import (
    BatchMethod,
    BatchRule,
    Call,
    Composite,
    Expr,
    Form,
    FormKind,
    Kind,
    Model,
    Operator,
    Pointwise,
    Reduce,
    Var,
)
from codegen.overloads import TENSOR
from codegen.pyexpr import children

GIVEN, DERIVED, LOOP, NOTHING = "given", "derived", "missing", "-"


def rules(model: Model, op: Operator, form: Form) -> tuple[BatchRule, ...]:
    """Return the rules of one entry in the order in which they are tried; none: one call per batch entry."""
    found = tuple(_rules(model, op, form))
    if form.kind is FormKind.OUT:
        return tuple(rule for rule in (_into_outs(rule, form) for rule in found) if rule is not None)
    return found


def _rules(model: Model, op: Operator, form: Form) -> Iterator[BatchRule]:
    if is_composite(op, form) and form is not op.forms[0]:
        yield BatchRule(BatchMethod.PARTS, (), None)
        return
    for rule in op.batching:
        yield from _with_fresh(model, op, rule, rule.expr) if rule.expr is not None else (rule,)
    if op.batching and op.kind is not Kind.COMPOSITE:
        return
    match op.body:
        case Pointwise(operands=operands):
            names = (name for name in operands if name not in form.numbers)
            yield BatchRule(BatchMethod.POINTWISE, tuple((name, "operand", 0) for name in names), None)
        case Reduce(operands=operands, dim=str() as dim):
            fronts = tuple((name, "front", 0) for name in operands)
            yield BatchRule(BatchMethod.PLACE, (*fronts, (dim, "dim", 0)), None)
        case Composite(expr=expr):
            parts = BatchRule(BatchMethod.PARTS, (), None)
            yield from _with_fresh(model, op, parts, expr)


def is_composite(op: Operator, form: Form) -> bool:
    """Whether the kernels behind an entry only call other operators."""
    if form.numbers and op.kind is not Kind.POINTWISE:
        return True
    return op.kind is Kind.COMPOSITE


def _with_fresh(model: Model, op: Operator, rule: BatchRule, expr: Expr | None) -> Iterator[BatchRule]:
    """A rule by parts, if what the parts write to can be batched.

    Writing batched values needs a batched target. One that is made from an argument is batched as soon
    as the argument is: it is placed in front. One that is made from sizes alone never is.
    """
    if expr is None:
        yield rule
        return
    sources = [_source(target) for target in _targets(model, expr)]
    if None in sources:
        return
    mutable = {a.name for a in op.schema.args if a.alias is not None and a.alias.is_write}
    names = dict.fromkeys(name for name in sources if name is not None and name not in mutable)
    yield BatchRule(rule.method, tuple((name, "front", 0) for name in names), rule.expr, rule.position)


def _targets(model: Model, expr: Expr) -> Iterator[Expr]:
    """What in-place calls write to."""
    if isinstance(expr, Call) and model.form(expr.form)[1].kind is FormKind.INPLACE:
        yield expr.args[0]
    for child in children(expr):
        yield from _targets(model, child)


def _source(expr: Expr) -> str | None:
    """Return the first Tensor argument from which a value is computed."""
    if isinstance(expr, Var):
        return expr.name if expr.type == TENSOR else None
    return next((name for child in children(expr) if (name := _source(child)) is not None), None)


def _into_outs(rule: BatchRule, form: Form) -> BatchRule | None:
    """The rule of an out= form, whose results stand at the front of the out arguments."""
    if rule.method is BatchMethod.PARTS or any(role == "fold" for _, role, _ in rule.places):
        return None
    role = "operand" if rule.method is BatchMethod.POINTWISE else "front"
    outs = tuple((a.name, role, 0) for a in form.schema.args if a.is_out)
    return BatchRule(rule.method, (*rule.places, *outs), rule.expr, rule.position)


def takes_batches(op: Operator) -> bool:
    """Whether vmap can meet the operator: it takes tensors, and their values decide no shape."""
    return bool(tensor_args(op.schema)) and not is_dynamic(op)


def is_dynamic(op: Operator) -> bool:
    """Whether shapes or host values are read from data."""
    return getattr(op.body, "dynamic", None) is not None


def is_random(op: Operator) -> bool:
    """Whether the operator's own kernels draw random numbers."""
    generator = any("Generator" in str(a.type) for a in op.schema.args)
    return op.kind is not Kind.COMPOSITE and (generator or "random" in op.tags)


def status(model: Model, op: Operator) -> tuple[str, str]:
    """Return how the operator comes by its rules, and which they are."""
    if not takes_batches(op):
        return NOTHING, "shapes are data" if is_dynamic(op) else ""
    found = rules(model, op, op.forms[0])
    if not found:
        return LOOP, "one call per entry of the batch"
    shown = "; ".join(dict.fromkeys(_shown(rule) for rule in found))
    return (GIVEN if op.batching else DERIVED), shown


def _shown(rule: BatchRule) -> str:
    if rule.expr is not None:
        return "expression"
    if rule.method is not BatchMethod.PLACE:
        return str(rule.method.value)
    return ", ".join(
        f"{name}: {role}{f' {at}' if role in ('align', 'fold') else ''}" for name, role, at in rule.places
    )
