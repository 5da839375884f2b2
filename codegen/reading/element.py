"""`element:` — which one element a result takes from an argument, or which one it adds an argument to.

    element: result = self[index along dim]
    element: result[index along dim] += grad_output

The names stand for arguments: tensors, and the dimension. Compilers that write their own loops read it.
"""

from __future__ import annotations

import re

from codegen.language.overloads import INT, TENSOR, plain
from codegen.model import Element
from codegen.reading.context import Context
from codegen.reading.entries import Draft

_FORMS = (
    re.compile(r"result = (?P<tensor>\w+)\[(?P<positions>\w+) along (?P<dim>\w+)\]"),
    re.compile(r"result\[(?P<positions>\w+) along (?P<dim>\w+)\] \+= (?P<tensor>\w+)"),
)


def read_element(draft: Draft, context: Context) -> Element | None:
    """Read the key of an entry; a mistake is reported at its position."""
    text = draft.fields.scalar("element")
    if text is None:
        return None
    found = [form.fullmatch(text.value) for form in _FORMS]
    match = found[0] or found[1]
    if match is None:
        message = f"element: expected one of two forms, got '{text.value}'"
        hint = "write result = self[index along dim], or result[index along dim] += grad_output"
        context.collector.add(text.position, "FB0104", message, hint, text.length)
        return None
    types = {arg.name: plain(arg.type) for arg in draft.schema.args}
    for key, wanted in (("tensor", TENSOR), ("positions", TENSOR), ("dim", INT)):
        if types.get(match[key]) != wanted:
            kind = "a Tensor" if wanted == TENSOR else "an int"
            message = f"element: expected {kind} argument, got '{match[key]}'"
            context.collector.add(
                text.position, "FB0104", message, "name arguments of the schema", text.length
            )
            return None
    return Element(match["tensor"], match["positions"], match["dim"], adds=found[0] is None)
