"""The `vmap` key: how an operator runs on tensors with a hidden batch dimension, as its entry says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codegen.language.blocks import expressions
from codegen.language.forms import result_names, takes_list, tensor_args
from codegen.language.overloads import plain
from codegen.language.pyexpr import children
from codegen.language.tensor_expr import unknown
from codegen.model import (
    BaseType,
    BatchPlace,
    BatchRule,
    Call,
    ListType,
    OptionalType,
    Statement,
    TupleType,
    Type,
    Var,
)
from codegen.model.enumerations import BatchMethod, BatchRole, DimKind
from codegen.reading import keys
from codegen.reading.block_parser import parse_function
from codegen.reading.context import Context
from codegen.reading.entries import Draft
from codegen.reading.fields import Fields, check_keys
from codegen.source.diagnostics import did_you_mean
from codegen.source.nodes import Node, Text

# Keys that list names, and the role that they give.
_LISTS = {
    "front": BatchRole.FRONT,
    "sizes": BatchRole.SIZE,
    "strides": BatchRole.STRIDE,
    "offsets": BatchRole.OFFSET,
    "times": BatchRole.TIMES,
}
# Keys that list dimensions, and what the value is: one dimension, or a list of them.
_DIMS = {
    "dims": (DimKind.ONE_DIM, DimKind.DIMS),
    "reduced": (DimKind.ONE_DIM, DimKind.DIMS_OR_ALL),
    "order": (DimKind.ORDER, DimKind.ORDER),
    "new_dims": (DimKind.NEW_DIM, DimKind.NEW_DIMS),
}
_MAPS = {"align": BatchRole.ALIGN, "fold": BatchRole.FOLD}
_PLACING = (BatchRole.FRONT, BatchRole.ALIGN, BatchRole.FOLD, BatchRole.SIZE)
_INTEGERS = (BaseType("int"), BaseType("SymInt"))


def read_batching(draft: Draft, context: Context) -> tuple[BatchRule, ...]:
    """Return the rules of an entry in order of trial."""
    found = (_rule(fields, draft, context) for fields in draft.fields.maps("vmap"))
    return tuple(rule for rule in found if rule is not None)


def _rule(fields: Fields, draft: Draft, context: Context) -> BatchRule | None:
    before = len(context.collector)
    check_keys(fields, keys.VMAP)
    if len(context.collector) > before:
        return None
    for key in ("expr", "loop"):
        if fields.scalar(key) is not None and not _stands_alone(fields, key):
            return None
    reason = fields.text("loop")
    if reason is not None:
        return BatchRule(BatchMethod.LOOP, (), (), reason, fields.node.position)
    text = fields.scalar("expr")
    if text is not None:
        return _expression(text, draft, context)
    places = tuple(_places(fields, draft))
    if not any(place.role in _PLACING for place in places):
        if len(context.collector) == before:
            hint = "name a tensor in front, align or fold, or give an expr"
            context.collector.add(fields.node.position, "FB0102", "vmap: a rule that places nothing", hint)
        return None
    return BatchRule(BatchMethod.PLACE, places, position=fields.node.position)


def _stands_alone(fields: Fields, alone: str) -> bool:
    other = next((key for key, _ in fields.node.items if key.value != alone), None)
    if other is not None:
        message = f"vmap: '{other.value}' beside '{alone}'"
        hint = "an expression's operators have rules of their own, and a loop needs none"
        fields.collector.add(other.position, "FB0106", message, hint, other.length)
    return other is None


def _expression(text: Text, draft: Draft, context: Context) -> BatchRule | None:
    variables = {a.name: plain(a.type) for a in draft.schema.args}
    returns = tuple(plain(r.type) for r in draft.schema.returns)
    want = returns[0] if len(returns) == 1 else TupleType(returns)
    scope = context.scope(variables, draft, draft.name, inplace_allowed=True)
    body = parse_function(text, scope, context.collector, want)
    if body is None:
        return None
    _check_recursion(body, draft, context)
    return BatchRule(BatchMethod.PARTS, (), body, position=text.position)


def _check_recursion(body: Sequence[Statement], draft: Draft, context: Context) -> None:
    """Refuse a call of the operator with the same tensors: the batch would choose the same rule again."""
    forms = {form.name for form in draft.forms}
    given = {a.name for a in tensor_args(draft.schema)}
    pending = list(expressions(body))
    while pending:
        expr = pending.pop()
        pending += children(expr)
        if not isinstance(expr, Call) or expr.form not in forms:
            continue
        if given <= {a.name for a in expr.args if isinstance(a, Var)}:
            message = f"vmap: the rule calls {expr.form} with the same tensors and would never return"
            hint = "call other operators, or this one with other tensors"
            context.collector.add(expr.position, "FB0313", message, hint)


def _places(fields: Fields, draft: Draft) -> Iterator[BatchPlace]:
    """Yield the checked places; each name has one."""
    given: set[str] = set()
    for place, text in (*_listed(fields, draft), *_mapped(fields, draft)):
        if place.name in given:
            message = f"vmap: '{place.name}' is placed twice"
            fields.collector.add(text.position, "FB0206", message, "keep one of them", text.length)
        given.add(place.name)
        yield place


def _listed(fields: Fields, draft: Draft) -> Iterator[tuple[BatchPlace, Text]]:
    tensors = [a.name for a in tensor_args(draft.schema)]
    lists = [a.name for a in draft.schema.args if _is_tensor_list(a.type)]
    integers = [a.name for a in draft.schema.args if _is_integral(a.type)]
    allowed = {"front": tensors, "sizes": [*integers, *lists]}
    for key, role in _LISTS.items():
        for text in fields.texts(key):
            if _known(fields, key, text, allowed.get(key, integers), draft.name):
                yield BatchPlace(text.value, role), text
    for key, (one, several) in _DIMS.items():
        for text in fields.texts(key):
            if _known(fields, key, text, integers, draft.name):
                kind = several if takes_list(draft.schema, text.value) else one
                yield BatchPlace(text.value, BatchRole.DIM, dims=kind), text


def _mapped(fields: Fields, draft: Draft) -> Iterator[tuple[BatchPlace, Text]]:
    tensors = [a.name for a in tensor_args(draft.schema)]
    for map_key, role in _MAPS.items():
        names = [*tensors, *result_names(draft.schema.returns)] if role is BatchRole.FOLD else tensors
        inner = fields.map(map_key)
        for key, value in inner.node.items if inner is not None else ():
            if not _known(fields, map_key, key, names, draft.name):
                continue
            place = _position(value, draft) if key.value not in tensors else None
            if place is not None:
                yield BatchPlace(key.value, BatchRole.FOLLOW, place), key
            elif (number := _integer(fields, key, value)) is not None:
                yield BatchPlace(key.value, role, number), key


def _position(value: Node, draft: Draft) -> int | None:
    """Return which argument, a dimension, says where a result has its batch."""
    names = [a.name for a in draft.schema.args]
    return names.index(value.value) if isinstance(value, Text) and value.value in names else None


def _integer(fields: Fields, key: Text, value: Node) -> int | None:
    if isinstance(value, Text) and value.value.removeprefix("-").isdecimal():
        return int(value.value)
    message = f"vmap: {key.value}: expected an integer"
    fields.collector.add(value.position, "FB0103", message, "write {argument: 2}")
    return None


def _known(fields: Fields, key: str, text: Text, names: list[str], operator: str) -> bool:
    if text.value in names:
        return True
    kind = "Tensor arguments" if key in ("front", *_MAPS) else "integer arguments"
    message = f"vmap: {key}: '{text.value}' is none of the {kind}"
    hint = did_you_mean(text.value, names, kind)
    group = unknown(operator, text.value)
    fields.collector.add(text.position, "FB0305", message, hint, text.length, group=group)
    return False


def _is_integral(type_: Type) -> bool:
    while isinstance(type_, OptionalType | ListType):
        type_ = type_.elem
    return type_ in _INTEGERS


def _is_tensor_list(type_: Type) -> bool:
    return isinstance(type_, ListType) and not _is_integral(type_)
