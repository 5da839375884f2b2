"""For functionalisation: the entries that compute what an entry writes, or copy what it views."""

from __future__ import annotations

from dataclasses import replace

from codegen.language.calls import body_calls
from codegen.model import Composite, Form, FormKind, Kind, Model, Operator


def functional_form(model: Model, op: Operator, form: Form) -> Form | None:
    """Return the entry with the same values that writes nothing; of a view, its copy."""
    if not _writes(form):
        copied = replace(op.schema.name, base=f"{op.schema.name.base}_copy")
        return model.find(str(copied)) if op.kind is Kind.VIEW else None
    for other in op.forms:
        if not _writes(other) and other.numbers == form.numbers:
            return other
    name = replace(op.schema.name, base=op.functional or op.schema.name.base, inplace=False)
    found = model.find(str(name))
    return found if found is not None and _takes_the_same(found, form) else None


def inverse_form(model: Model, op: Operator) -> Form | None:
    """Return the view that reads a view's memory as the viewed numbers, where the dtypes differ."""
    return model.find(op.read_back) if op.read_back else None


def is_whole(model: Model, op: Operator, form: Form) -> bool:
    """Whether an entry without effects is a composite whose parts have them, or make views for copies."""
    if _writes(form) or not isinstance(op.body, Composite):
        return False
    viewed = replace(op.schema.name, base=op.schema.name.base.removesuffix("_copy"))
    original = model.find(str(viewed)) if viewed != op.schema.name else None
    if original is not None and any(r.alias is not None for r in original.schema.returns):
        return True
    called = (model.find(name) for name in body_calls(op.body.statements))
    return any(call is not None and _writes(call) for call in called)


def _writes(form: Form) -> bool:
    return any(arg.alias is not None and arg.alias.is_write for arg in form.schema.args)


def _takes_the_same(functional: Form, form: Form) -> bool:
    given = [(a.name, a.type) for a in form.schema.args if not a.is_out]
    return [
        (a.name, a.type) for a in functional.schema.args
    ] == given and functional.kind is FormKind.FUNCTIONAL
