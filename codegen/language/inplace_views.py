"""In-place forms of composites that are views: each view changes self's geometry, no element moves."""

from __future__ import annotations

from collections.abc import Callable

from codegen.language.forms import inplace_schema
from codegen.model import Call, Composite, Expr, Form, FormKind, Operator, Schema, Var


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
