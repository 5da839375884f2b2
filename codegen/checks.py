"""`check:` — what must hold before an operator computes anything, and what is said otherwise.

    check:
      - {that: self.ndim >= 2, say: "expected 2 dimensions or more, got {self.shape}"}

A condition is a tensor expression that the host knows without computing: it reads shapes, dtypes, options and
numbers, never elements, so that it holds for meta tensors and costs next to nothing.
"""

from __future__ import annotations

from codegen import keys, model
from codegen.context import Context
from codegen.entries import Draft
from codegen.fields import Fields, check_keys
from codegen.lets import parse_with_lets
from codegen.model import BaseType, Check, Expr, ListType
from codegen.overloads import BOOL, has_tensor, show, type_of
from codegen.pyexpr import children
from codegen.source import Text

_SHOWN = ("int", "float", "bool", "str", "Scalar", "ScalarType", "Device")


def read_checks(draft: Draft, context: Context) -> tuple[Check, ...]:
    """Read the checks of an entry; each mistake is reported where it stands."""
    found = [_read(fields, draft, context) for fields in draft.fields.maps("check")]
    return tuple(check for check in found if check is not None)


def _read(fields: Fields, draft: Draft, context: Context) -> Check | None:
    check_keys(fields, keys.CHECK)
    error = fields.choice("error", keys.ERRORS) or keys.ERRORS[0]
    that, say = fields.scalar("that"), fields.scalar("say")
    if that is None or say is None:
        return None
    condition = _host_value(that, (0, None), draft, context, f"check of {draft.name}", BOOL)
    message = _message(say, draft, context)
    return None if condition is None or message is None else Check(condition, error, message)


def _host_value(
    text: Text, span: tuple[int, int | None], draft: Draft, context: Context, what: str, want: BaseType | None
) -> Expr | None:
    """Parse a part of a text that the host can evaluate."""
    expr = parse_with_lets(draft, context, text, what, want, span)
    call = None if expr is None else _first_call(expr)
    if call is None:
        return expr
    message = f"{what} calls {call.form}"
    hint = "read shapes, dtypes and numbers; what depends on elements is checked by the operator itself"
    context.collector.add(call.position, "FB0307", message, hint)
    return None


def _first_call(expr: Expr) -> model.Call | None:
    if isinstance(expr, model.Call):
        return expr
    return next((found for part in children(expr) if (found := _first_call(part)) is not None), None)


def _message(text: Text, draft: Draft, context: Context) -> tuple[str | Expr, ...] | None:
    """`text {expression} text`: the expressions' values are shown in their places."""
    parts: list[str | Expr] = []
    value, at, good = text.value, 0, True
    while at < len(value):
        begin = value.find("{", at)
        parts.append(value[at : len(value) if begin < 0 else begin])
        if begin < 0:
            break
        end = value.find("}", begin)
        if end < 0:
            context.collector.add(text.at(begin), "FB0301", "unbalanced '{' in say", "write {expression}")
            return None
        expr = _host_value(text, (begin + 1, end), draft, context, f"message of {draft.name}", None)
        good &= expr is not None and _can_show(expr, text, begin, context)
        if expr is not None:
            parts.append(expr)
        at = end + 1
    return tuple(part for part in parts if part != "") if good else None


def _can_show(expr: Expr, text: Text, offset: int, context: Context) -> bool:
    type_ = type_of(expr)
    elem = type_.elem if isinstance(type_, ListType) else type_
    if isinstance(elem, BaseType) and elem.name in _SHOWN:
        return True
    hint = (
        "show its shape or dtype" if has_tensor(type_) else "show value(x) where has_value(x) is not in doubt"
    )
    message = f"say: a {show(type_)} cannot be shown"
    context.collector.add(text.at(offset), "FB0306", message, hint)
    return False
