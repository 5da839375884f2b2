"""The batching rules of each dispatcher entry: given by `vmap`, or derived from how the operator computes."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.language.forms import takes_list, tensor_args
from codegen.model import (
    BaseType,
    BatchPlace,
    BatchRule,
    Composite,
    Form,
    FormKind,
    Kernels,
    Kind,
    Operator,
    OptionalType,
    Pointwise,
    Reduce,
)
from codegen.model.enumerations import BatchMethod, BatchRole, DimKind

_PLACED_BY_NUMBER = (BatchRole.FOLD, BatchRole.FOLLOW)
GIVEN, DERIVED, LOOP, NOTHING = "given", "derived", "missing", "-"


def rules(op: Operator, form: Form) -> tuple[BatchRule, ...]:
    """Return the rules of one entry in order of trial; none: one call per batch entry."""
    found = tuple(_rules(op, form))
    if form.kind is FormKind.OUT:
        return tuple(rule for rule in (_into_outs(rule, form) for rule in found) if rule is not None)
    return found


def _rules(op: Operator, form: Form) -> Iterator[BatchRule]:
    if is_composite(op, form) and form is not op.forms[0]:
        yield BatchRule(BatchMethod.PARTS, ())
        return
    yield from op.batching
    if op.batching and op.kind is not Kind.COMPOSITE:
        return
    match op.body:
        case Pointwise(operands=operands, masks=masks):
            names = (name for name in operands if name not in form.numbers)
            roles = ((name, BatchRole.MASK if name in masks else BatchRole.OPERAND) for name in names)
            places = tuple(BatchPlace(name, role) for name, role in roles)
            yield BatchRule(BatchMethod.POINTWISE, places)
        case Reduce(operands=operands, dim=str() as dim):
            fronts = tuple(BatchPlace(name, BatchRole.FRONT) for name in operands)
            kind = DimKind.DIMS_OR_ALL if takes_list(op.schema, dim) else DimKind.ONE_DIM
            place = BatchPlace(dim, BatchRole.DIM, dims=kind)
            yield BatchRule(BatchMethod.PLACE, (*fronts, place))
        case Composite():
            yield BatchRule(BatchMethod.PARTS, ())


def is_composite(op: Operator, form: Form) -> bool:
    """Whether the kernels behind an entry only call other operators."""
    if form.numbers and op.kind is not Kind.POINTWISE:
        return True
    return op.kind is Kind.COMPOSITE


def _into_outs(rule: BatchRule, form: Form) -> BatchRule | None:
    """The rule of an out= form, whose results stand at the front of the out arguments."""
    if rule.method is BatchMethod.PARTS or any(place.role in _PLACED_BY_NUMBER for place in rule.places):
        return None
    role = BatchRole.OPERAND if rule.method is BatchMethod.POINTWISE else BatchRole.FRONT
    outs = tuple(BatchPlace(a.name, role) for a in form.schema.args if a.is_out)
    return BatchRule(rule.method, (*rule.places, *outs), rule.body)


def takes_batches(op: Operator) -> bool:
    """Whether vmap can meet the operator: it takes tensors, and their values decide no shape."""
    return bool(tensor_args(op.schema)) and not is_dynamic(op)


def is_dynamic(op: Operator) -> bool:
    """Whether shapes or host values are read from data."""
    return isinstance(op.body, Kernels) and op.body.dynamic is not None


def is_random(op: Operator) -> bool:
    """Whether the operator's own kernels draw random numbers."""
    generator = any("Generator" in str(a.type) for a in op.schema.args)
    return op.kind is not Kind.COMPOSITE and (generator or "random" in op.tags)


def is_factory(op: Operator) -> bool:
    """Whether the operator only makes a tensor of the dtype, layout and device asked for.

    A conversion takes the same options: it returns its argument, or has a derivative.
    """
    types = [a.type.elem if isinstance(a.type, OptionalType) else a.type for a in op.schema.args]
    takes_options = all(BaseType(name) in types for name in ("ScalarType", "Layout", "Device"))
    is_fresh = all(result.alias is None for result in op.schema.returns)
    formulas = () if op.derivative is None else op.derivative.formulas
    return takes_options and is_fresh and not any(formula.body for formula in formulas)


def status(op: Operator) -> tuple[str, str]:
    """Return how the operator comes by its rules, and which they are."""
    if not takes_batches(op):
        return NOTHING, "shapes are data" if is_dynamic(op) else ""
    found = rules(op, op.forms[0])
    if not found:
        return LOOP, "no rule"
    if found[0].method is BatchMethod.LOOP:
        return LOOP, found[0].reason
    shown = "; ".join(dict.fromkeys(_shown(rule) for rule in found))
    return (GIVEN if op.batching else DERIVED), shown


def _shown(rule: BatchRule) -> str:
    if rule.body:
        return "expression" if len(rule.body) == 1 else "body"
    if rule.method is not BatchMethod.PLACE:
        return str(rule.method.value)
    shown = []
    for place in rule.places:
        number = f" {place.at}" if place.role in (BatchRole.ALIGN, BatchRole.FOLD) else ""
        shown.append(f"{place.name}: {place.role.value}{number}")
    return ", ".join(shown)
