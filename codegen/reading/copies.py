"""The copy of a view: `variants: [copy]` gives `transpose` its `transpose_copy`, whose memory is its own.

The copy is an entry like any other, made from the view's: schema without aliases, a composite of the
view and `clone`, the same tests. Its texts stand where the view's stand, so mistakes are shown there.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.language.schema import show_schema
from codegen.model import Argument, ListType, Schema
from codegen.source.nodes import Mapping, Node, Sequence, Text

# What the copy does not share with its view.
_OWN = (
    "func",
    "variants",
    "doc",
    "aliases",
    "orders",
    "infix",
    "scalars",
    "view",
    "sparse",
    "vmap",
    "composite",
    "read_back",
)


def can_copy(schema: Schema) -> bool:
    """Whether the results are views of an argument."""
    return bool(schema.returns) and all(r.alias is not None and not r.alias.is_write for r in schema.returns)


def copy_of(entry: Mapping, func: Text, schema: Schema) -> Mapping:
    """Return the entry of the copy."""
    key = next(key for key, _ in entry.items)
    several = isinstance(schema.returns[0].type, ListType)
    forms = ("function", "out")
    own: dict[str, Node] = {
        "func": func.replaced(show_schema(_copied(schema))),
        "variants": Sequence(tuple(func.replaced(form) for form in forms), func.position),
        "composite": func.replaced(_composite(schema, several)),
        "doc": func.replaced(f"The elements of `{schema.name.base}` in memory of their own."),
    }
    if not several:  # PyTorch casts into no out= of a copy; of lists the tags of the view say it
        own["tags"] = Sequence((*_tags(entry), func.replaced("exact_out")), func.position)
    shared = tuple(item for item in entry.items if item[0].value not in (*_OWN, *own))
    return Mapping((*((key.replaced(name), node) for name, node in own.items()), *shared), entry.position)


def _tags(entry: Mapping) -> tuple[Node, ...]:
    tags = entry.get("tags")
    return tags.items if isinstance(tags, Sequence) else ()


def _copied(schema: Schema) -> Schema:
    name = replace(schema.name, base=f"{schema.name.base}_copy")
    args = tuple(replace(arg, alias=None) for arg in schema.args)
    return Schema(name, args, tuple(replace(r, alias=None) for r in schema.returns))


def _composite(schema: Schema, several: bool) -> str:
    call = f"{schema.name.base}({', '.join(map(_passed, schema.args))})"
    return f"_copies({call})" if several else f"clone({call}, memory_format=contiguous_format)"


def _passed(arg: Argument) -> str:
    return f"{arg.name}={arg.name}" if arg.kwarg_only else arg.name
