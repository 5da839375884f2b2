"""A changed return count: what the rest of an entry says about results, against its schema.

Kernels, `vmap` and the derivative all speak of the results. If one of them disagrees with the schema, it is
mistaken itself; if two do, the schema is, and one message says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codegen.language.overloads import AnyType, returns_type
from codegen.model import ListType, TupleType
from codegen.reading.context import Context
from codegen.reading.derivative_entries import Entry, differentiable_outputs, output_names
from codegen.reading.entries import Draft
from codegen.source.nodes import Node, Text, texts

_WORD = re.compile(r"[A-Za-z_]\w*")
_RESULT = re.compile(r"result\d*")
_GRAD = re.compile(r"grad(?:_(result\d*))?")


def contradicts(draft: Draft, entry: Entry | None, wrong_types: bool, context: Context) -> bool:
    """Report a schema whose number of results two other places deny."""
    if draft.broken:
        return False
    where = [text.position for text in (*_in_derivative(draft, entry), *_in_vmap(draft))]
    if not where or len(where) + wrong_types < 2:
        return False
    message = f"{draft.name} returns {_kind(returns_type(draft.schema))}, which its other keys contradict"
    at = where[0]
    hint = f"{at.file}:{at.line} speaks of another number of them: correct the schema, or all of these keys"
    begin = draft.func.value.rfind("->")
    context.collector.add(
        draft.func.at(begin + 3), "FB0210", message, hint, len(draft.func.value) - begin - 3
    )
    return True


def _in_derivative(draft: Draft, entry: Entry | None) -> Iterator[Text]:
    """Yield the texts that name a result, or the gradient of one, that the operator does not have."""
    if entry is None:
        return
    outputs, arguments = output_names(draft), {a.name for a in draft.schema.args}
    grads = differentiable_outputs(draft, entry.fields)
    known = {
        *outputs,
        *arguments,
        *(f"grad_{name}" for name in outputs),
        *(["grad"] if len(grads) == 1 else []),
    }
    for found in (_RESULT, _GRAD):
        for text in texts(entry.fields.node):
            if any(found.fullmatch(w) and w not in known for w in _WORD.findall(text.value)):
                yield text
                break


def _kind(type_: AnyType) -> str:
    """How many results."""
    if isinstance(type_, TupleType):
        return f"{len(type_.items)} results"
    return "a list" if isinstance(type_, ListType) else "1 result"


def _in_vmap(draft: Draft) -> Iterator[Text]:
    known = {*output_names(draft), *(a.name for a in draft.schema.args)}
    node: Node | None = draft.fields.node.get("vmap")
    yield from (t for t in texts(node) if _RESULT.fullmatch(t.value) and t.value not in known)
