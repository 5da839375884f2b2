"""The `vmap` key: how an operator runs on tensors with a hidden batch dimension, as its entry says."""

from __future__ import annotations

from collections.abc import Iterator

from codegen import keys
from codegen.context import Context
from codegen.diagnostics import did_you_mean
from codegen.entries import Draft
from codegen.fields import Fields, check_keys
from codegen.forms import tensor_args
from codegen.model import BaseType, BatchMethod, BatchRule, ListType, OptionalType, Return, TupleType, Type
from codegen.overloads import plain
from codegen.source import Node, Text
from codegen.tensor_expr import TensorParser

Place = tuple[str, str, int]
# Keys that list names, and the role that they give.
_LISTS = {"front": "front", "dims": "dim", "sizes": "size", "times": "times"}
_MAPS = ("align", "fold")
_INTEGERS = (BaseType("int"), BaseType("SymInt"))


def result_names(returns: tuple[Return, ...]) -> tuple[str, ...]:
    """Return how rules call the results."""
    return tuple(r.name or (f"result{i}" if len(returns) > 1 else "result") for i, r in enumerate(returns))


def read_batching(draft: Draft, context: Context) -> tuple[BatchRule, ...]:
    """Return the rules of an entry in the order in which they are tried."""
    found = (_rule(fields, draft, context) for fields in draft.fields.maps("vmap"))
    return tuple(rule for rule in found if rule is not None)


def _rule(fields: Fields, draft: Draft, context: Context) -> BatchRule | None:
    before = len(context.collector)
    check_keys(fields, keys.VMAP)
    if len(context.collector) > before:
        return None
    text = fields.scalar("expr")
    if text is not None:
        return _expression(text, fields, draft, context)
    places = tuple(_places(fields, draft))
    if not any(role in ("front", "align", "fold", "size") for _, role, _ in places):
        if len(context.collector) == before:
            hint = "name a tensor in front, align or fold, or give an expr"
            context.collector.add(fields.node.position, "FB0102", "vmap: a rule that places nothing", hint)
        return None
    return BatchRule(BatchMethod.PLACE, places, None, fields.node.position)


def _expression(text: Text, fields: Fields, draft: Draft, context: Context) -> BatchRule | None:
    for key, _ in fields.node.items:
        if key.value != "expr":
            message = f"vmap: '{key.value}' beside 'expr'"
            hint = "the operators of the expression have rules of their own"
            context.collector.add(key.position, "FB0106", message, hint, key.length)
            return None
    variables = {a.name: plain(a.type) for a in draft.schema.args}
    returns = tuple(plain(r.type) for r in draft.schema.returns)
    want = returns[0] if len(returns) == 1 else TupleType(returns)
    scope = context.scope(variables, draft.name, inplace_allowed=True)
    expr = TensorParser(scope, context.collector).parse(text, want)
    return None if expr is None else BatchRule(BatchMethod.PARTS, (), expr, text.position)


def _places(fields: Fields, draft: Draft) -> Iterator[Place]:
    """Yield the checked places; each name has one."""
    given: set[str] = set()
    for place, text in (*_listed(fields, draft), *_mapped(fields, draft)):
        if place[0] in given:
            message = f"vmap: '{place[0]}' is placed twice"
            fields.collector.add(text.position, "FB0206", message, "keep one of them", text.length)
        given.add(place[0])
        yield place


def _listed(fields: Fields, draft: Draft) -> Iterator[tuple[Place, Text]]:
    tensors = [a.name for a in tensor_args(draft.schema)]
    lists = [a.name for a in draft.schema.args if _is_tensor_list(a.type)]
    integers = [a.name for a in draft.schema.args if _is_integral(a.type)]
    allowed = {"front": tensors, "dims": integers, "sizes": [*integers, *lists], "times": integers}
    for key, role in _LISTS.items():
        for text in fields.texts(key):
            if _known(fields, key, text, allowed[key]):
                yield (text.value, role, 0), text


def _mapped(fields: Fields, draft: Draft) -> Iterator[tuple[Place, Text]]:
    tensors = [a.name for a in tensor_args(draft.schema)]
    for role in _MAPS:
        names = [*tensors, *result_names(draft.schema.returns)] if role == "fold" else tensors
        inner = fields.map(role)
        for key, value in inner.node.items if inner is not None else ():
            number = _integer(fields, key, value)
            if _known(fields, role, key, names) and number is not None:
                yield (key.value, role, number), key


def _integer(fields: Fields, key: Text, value: Node) -> int | None:
    if isinstance(value, Text) and value.value.removeprefix("-").isdecimal():
        return int(value.value)
    message = f"vmap: {key.value}: expected an integer"
    fields.collector.add(value.position, "FB0103", message, "write {argument: 2}")
    return None


def _known(fields: Fields, key: str, text: Text, names: list[str]) -> bool:
    if text.value in names:
        return True
    kind = "Tensor arguments" if key in ("front", *_MAPS) else "integer arguments"
    message = f"vmap: {key}: '{text.value}' is none of the {kind}"
    fields.collector.add(text.position, "FB0305", message, did_you_mean(text.value, names, kind), text.length)
    return False


def _is_integral(type_: Type) -> bool:
    while isinstance(type_, OptionalType | ListType):
        type_ = type_.elem
    return type_ in _INTEGERS


def _is_tensor_list(type_: Type) -> bool:
    return isinstance(type_, ListType) and not _is_integral(type_)
