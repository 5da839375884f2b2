"""Decompositions of operators with kernels: `decomposition:` gives `_softmax` its `_softmax_decomposed`.

A kernel computes an operator in one pass, and nothing says what it computes. Compilers that write loops of
their own need that as reductions and pointwise operators. The decomposition is an entry like any other, made
from the operator's: the same schema and a composite of the given text. Tests compare it with the operator on
all samples. Programs reach it by `ops.aten` only.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.language.schema import show_schema
from codegen.model import Schema
from codegen.source.nodes import Mapping, Node, Sequence, Text

SUFFIX = "_decomposed"
_SHARED = ("family", "dtypes", "test")


def decomposition_of(entry: Mapping, func: Text, schema: Schema) -> Mapping:
    """Return the entry of an operator's decomposition."""
    key = next(key for key, _ in entry.items)
    composite = entry.get("decomposition")
    assert composite is not None
    own: dict[str, Node] = {
        "func": func.replaced(show_schema(_renamed(schema))),
        "variants": Sequence((), func.position),
        "composite": composite,
        "doc": func.replaced(f"`{schema.name.base}` as reductions and pointwise operators."),
    }
    shared = tuple((k, node) for k, node in entry.items if k.value in _SHARED)
    return Mapping((*((key.replaced(k), node) for k, node in own.items()), *shared), entry.position)


def _renamed(schema: Schema) -> Schema:
    return replace(schema, name=replace(schema.name, base=schema.name.base + SUFFIX))
