"""A changed return count: what the rest of an entry says about results, against its schema.

Kernels, `vmap` and the derivative all speak of the results. One of them that disagrees with the schema is
mistaken itself; two of them leave the schema to blame, and so does one message. C++ leaves it to blame alone,
where all results of operators that it returns as they are differ from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codegen.language import raw_cpp
from codegen.language.overloads import AnyType, returns_type
from codegen.model import ListType, Position, TupleType
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
    cpp = _in_cpp(draft, context)
    where = [*cpp.values(), *(text.position for text in (*_in_derivative(draft, entry), *_in_vmap(draft)))]
    if not where or (not cpp and len(where) + wrong_types < 2):
        return False
    message = f"{draft.name} returns {_kind(returns_type(draft.schema))}, which its other keys contradict"
    at = where[0]
    hint = f"{at.file}:{at.line} speaks of another number of them: correct the schema, or all of these keys"
    begin = draft.func.value.rfind("->")
    context.collector.add(
        draft.func.at(begin + 3), "FB0210", message, hint, len(draft.func.value) - begin - 3, about=cpp
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


def _in_cpp(draft: Draft, context: Context) -> dict[str, Position]:
    """Return by operator where C++ returns results of others, if all of them are of another kind."""
    text = draft.fields.node.get("cpp")
    if not isinstance(text, Text):
        return {}
    known = raw_cpp.forms_by_struct(context.forms.every())
    kind = _kind(returns_type(draft.schema))
    where: dict[str, Position] = {}
    for offset, struct in raw_cpp.returned(text.value):
        form = context.forms.find(known.get(struct, struct))
        if form is None or _kind(returns_type(form.schema)) == kind:
            return {}
        where.setdefault(form.schema.name.base, text.at(offset))
    return where


def _kind(type_: AnyType) -> str:
    """How many results: of C++, no more is known without a compiler."""
    if isinstance(type_, TupleType):
        return f"{len(type_.items)} results"
    return "a list" if isinstance(type_, ListType) else "1 result"


def _in_vmap(draft: Draft) -> Iterator[Text]:
    known = {*output_names(draft), *(a.name for a in draft.schema.args)}
    node: Node | None = draft.fields.node.get("vmap")
    yield from (t for t in texts(node) if _RESULT.fullmatch(t.value) and t.value not in known)
