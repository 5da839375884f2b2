"""Checks the in-place forms of composites that are views."""

from __future__ import annotations

from codegen.language.inplace_views import is_view, view_chain
from codegen.model import Body, Composite, FormKind
from codegen.reading.context import Context
from codegen.reading.entries import Draft


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
