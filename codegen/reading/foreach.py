"""Operators over lists: `foreach:` gives `abs` its `_foreach_abs` and `_foreach_abs_`.

A row of the key is an overload with its parameters: `List: Tensor[] self, Tensor[] other`. They stand for
the operator's arguments, by name or else by place; a list where the operator takes one value gives each
tensor its own. The overload is an entry like any other, made here: a body that calls the operator in a
loop. Its texts stand where the row stands, so mistakes are shown there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from codegen.language.forms import inplace_schema, with_numbers
from codegen.language.schema import SchemaError, parse, show_schema
from codegen.model import Alias, Argument, BaseType, ListType, OperatorName, Return, Schema, Type
from codegen.reading.foreach_bodies import body
from codegen.source.nodes import Mapping, Node, Text
from codegen.source.nodes import Sequence as Items

FAMILY = "foreach"


def foreach_of(
    node: Node | None, schema: Schema, variants: Sequence[str], scalars: Sequence[tuple[str, ...]]
) -> Iterator[Mapping]:
    """Yield the entries of all rows: the functional one, and the in-place one where the operator has it."""
    if not isinstance(node, Mapping):
        return
    for key, row in node.items:
        if not isinstance(row, Text):
            continue
        name, _, overload = key.value.rpartition(".")
        base = OperatorName(f"_foreach_{name or schema.name.base}", overload.replace("default", ""), False)
        listed = _listed(row, base)
        if listed is None:  # reported by the schema's own check
            yield _entry(key, row, "", f"{base}({row.value}) -> Tensor[]", "")
            continue
        called = _called(schema, listed, scalars)
        forms = [] if schema.name.inplace else [(listed, called)]
        if schema.name.inplace:
            forms.append((_written(listed), called))
        elif any(variant.startswith("inplace") for variant in variants):
            forms.append((_written(listed), inplace_schema(called)))
        for own, one in forms:
            text = body(own, one, _pairs(one, own))
            yield _entry(key, row, str(one.name), show_schema(own), text)


def _listed(row: Text, name: OperatorName) -> Schema | None:
    try:
        parsed = parse(f"{name}({row.value}) -> Tensor[]")
    except SchemaError:
        return None
    return None if parsed.problems else parsed.schema


def _written(listed: Schema) -> Schema:
    alias = Alias(("a",), (), True)
    args = tuple(replace(a, alias=alias) if a.name == "self" else a for a in listed.args)
    returns: tuple[Return, ...] = ()
    return Schema(replace(listed.name, inplace=True), args, returns)


def _pairs(schema: Schema, listed: Schema) -> list[tuple[Argument, Argument]]:
    """The operator's arguments in order, each with what stands for it; those at the end may be left out."""
    by_name = {arg.name: arg for arg in listed.args}
    names = {arg.name for arg in schema.args}
    rest = iter([arg for arg in listed.args if arg.name not in names])
    pairs: list[tuple[Argument, Argument]] = []
    for arg in schema.args:
        given = by_name.get(arg.name) or next(rest, None)
        if given is None:
            break
        pairs.append((arg, given))
    return pairs


def _element(type_: Type) -> Type:
    return type_.elem if isinstance(type_, ListType) else type_


def _called(schema: Schema, listed: Schema, scalars: Sequence[tuple[str, ...]]) -> Schema:
    """The overload that takes numbers where the row does."""
    number = BaseType("Scalar")
    numbers = tuple(
        arg.name
        for arg, given in _pairs(schema, listed)
        if arg.type != number and _element(given.type) == number
    )
    return with_numbers(schema, numbers) if numbers in scalars else schema


def _entry(key: Text, row: Text, called: str, func: str, body: str) -> Mapping:
    values: dict[str, Node] = {
        "func": row.replaced(func),
        "family": row.replaced(FAMILY),
        "variants": Items((row.replaced("function"),), row.position),
        "composite": row.replaced(body),
        "doc": row.replaced(f"`{called}` of each tensor of a list."),
    }
    return Mapping(tuple((key.replaced(name), node) for name, node in values.items()), key.position)
