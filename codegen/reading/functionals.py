"""The functional form of an operator that writes: `functional: uniform` gives `uniform_` its `uniform`.

The form is an entry like any other, made from the operator's: the schema without alias and underscore, a
composite that writes into a copy, the same tests. Its texts stand where the operator's stand, so mistakes are
shown there. Programs reach it by `ops.aten` only.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.language.schema import show_schema
from codegen.model import Argument, Schema
from codegen.source.nodes import Mapping, Node, Sequence, Text

# What the functional form shares with its operator.
_SHARED = ("family", "tags", "dtypes", "test")
# Tags of the argument that is written.
_OF_WRITES = ("aligned_out", "apart_out", "exact_out", "type_error_out", "lazy")


def functional_of(entry: Mapping, func: Text, schema: Schema, name: Text) -> Mapping:
    """Return the entry of the functional form called `name`."""
    key = next(key for key, _ in entry.items)
    own: dict[str, Node] = {
        "func": func.replaced(show_schema(_functional(schema, name.value))),
        "variants": Sequence((), func.position),
        "composite": func.replaced(_composite(schema)),
        "doc": func.replaced(f"A copy of `self` with what `{schema.name.base}_` writes."),
    }
    shared = tuple((k, _without_writes(node)) for k, node in entry.items if k.value in _SHARED)
    return Mapping((*((key.replaced(k), node) for k, node in own.items()), *shared), entry.position)


def _without_writes(node: Node) -> Node:
    if not isinstance(node, Sequence):
        return node
    kept = tuple(i for i in node.items if not (isinstance(i, Text) and i.value in _OF_WRITES))
    return Sequence(kept, node.position)


def _functional(schema: Schema, base: str) -> Schema:
    name = replace(schema.name, base=base, inplace=False)
    args = tuple(replace(arg, alias=None) for arg in schema.args)
    return Schema(name, args, tuple(replace(r, alias=None) for r in schema.returns))


def _composite(schema: Schema) -> str:
    name = str(replace(schema.name, overload=""))
    return f"{name}(clone(self), {', '.join(map(_passed, schema.args[1:]))})".replace(", )", ")")


def _passed(arg: Argument) -> str:
    return f"{arg.name}={arg.name}" if arg.kwarg_only else arg.name
