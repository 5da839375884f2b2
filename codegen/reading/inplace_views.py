"""In-place forms of composites that are views: each view changes self's geometry, no element moves."""

from __future__ import annotations

from collections.abc import Callable

from codegen.language.forms import inplace_schema
from codegen.model import Body, Call, Composite, Expr, Form, FormKind, Operator, Schema, Var
from codegen.reading.context import Context
from codegen.reading.entries import Draft


def is_view(schema: Schema) -> bool:
    """Whether the schema returns one tensor that shares memory with an argument."""
    return len(schema.returns) == 1 and schema.returns[0].alias is not None and not schema.name.inplace


def changes_geometry(op: Operator, form: Form) -> bool:
    """Whether the form is the in-place form of a composite view."""
    return form.kind is FormKind.INPLACE and isinstance(op.body, Composite) and is_view(op.schema)


def view_chain(expr: Expr | None, find: Callable[[str], Form | None]) -> tuple[tuple[str, Call], ...] | None:
    """Return the in-place forms that do what nested views of self do, innermost first; None without them."""
    if isinstance(expr, Var):
        return () if expr.name == "self" else None
    form = find(expr.form) if isinstance(expr, Call) else None
    if not isinstance(expr, Call) or form is None or not is_view(form.schema):
        return None
    inner = view_chain(expr.args[0], find)
    name = str(inplace_schema(form.schema).name)
    return None if inner is None or find(name) is None else (*inner, (name, expr))


def check_inplace_view(draft: Draft, body: Body | None, context: Context) -> None:
    """Report a composite view with an in-place form that cannot be made of in-place views."""
    wanted = any(form.kind is FormKind.INPLACE for form in draft.forms)
    if not isinstance(body, Composite) or not wanted or not is_view(draft.schema):
        return
    if view_chain(body.expr, context.forms.find) is None:
        at = draft.fields.key_position("variants")
        message = f"variant inplace: {draft.name} is a view that no in-place views make"
        hint = "compose views of self that have in-place forms, or name a rule with `view:`"
        context.collector.add(at, "FB0208", message, hint)
