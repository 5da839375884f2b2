"""`check:` — conditions that are tested before an operator computes anything, and their errors.

    check:
      - {that: self.ndim >= 2, say: "expected 2 dimensions or more, got {self}"}

A condition is a tensor expression that the host knows without computing: it reads shapes, dtypes, options and
numbers, never elements, so that it holds for meta tensors and costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from codegen import model
from codegen.language import messages
from codegen.language.forms import is_tensor
from codegen.language.overloads import BOOL, show
from codegen.language.pyexpr import children
from codegen.language.schema import DTYPE_NAMES
from codegen.model import BaseType, Check, Expr, Prop, Var
from codegen.reading import keys
from codegen.reading.context import Context
from codegen.reading.entries import Draft
from codegen.reading.fields import Fields, check_keys
from codegen.reading.lets import parse_with_lets
from codegen.source.nodes import Sequence, Text


def read_checks(draft: Draft, context: Context) -> tuple[Check, ...]:
    """Read the checks of an entry; each mistake is reported at its position."""
    return tuple(check for fields in draft.fields.maps("check") for check in _read(fields, draft, context))


def _read(fields: Fields, draft: Draft, context: Context) -> Iterator[Check]:
    check_keys(fields, keys.CHECK)
    error = fields.choice("error", keys.ERRORS)
    error = error or (keys.ERRORS[0] if fields.map("dtypes") is None else "NotImplementedError")
    what = f"check of {draft.name}"
    elements, out = fields.scalar("elements"), fields.scalar("out")
    if out is not None and ("out" not in draft.variants or len(draft.schema.returns) != 1):
        fault = f"{draft.name} has no out= form with the argument out"
        fields.collector.add(out.position, "FB0106", fault, "write `that`, or add the variant `out`")
        return
    draft = draft if out is None else _with_out(draft)
    for that, say in _rows(fields, draft):
        if that is elements:
            condition = parse_with_lets(draft, context, that, what, BOOL)
        else:
            condition = _host_value(that, (0, None), draft, context, what, BOOL)
        message = _message(say, draft, context)
        if condition is not None and message is not None:
            yield Check(condition, error, message, that is out)


def _with_out(draft: Draft) -> Draft:
    """Return the entry with the argument `out`, of the type of the only result."""
    out = model.Argument("out", draft.schema.returns[0].type, None, None, True, True)
    return replace(draft, schema=replace(draft.schema, args=(*draft.schema.args, out)))


def _rows(fields: Fields, draft: Draft) -> Iterator[tuple[Text, Text]]:
    """Yield condition and message; keys other than `that` stand for checks that many operators share."""
    shared = [*_least_ndim(fields, draft), *_square_matrices(fields, draft), *_dtypes(fields, draft)]
    given = (fields.scalar(key) for key in ("that", "elements", "out"))
    that, say = next((text for text in given if text is not None), None), fields.scalar("say")
    yield from shared
    if that is not None and say is not None:
        yield that, say
    elif not any(fields.node.get(key) is not None for key in keys.SHARED_CHECKS):
        missing = "that" if that is None else "say"
        message, hint = f"missing key '{missing}'", f"{missing}: {keys.CHECK[missing].doc}"
        fields.collector.add(fields.node.position, "FB0102", message, hint)


def _least_ndim(fields: Fields, draft: Draft) -> Iterator[tuple[Text, Text]]:
    ndim = fields.map("ndim")
    for name, number in () if ndim is None else ndim.node.items:
        if not isinstance(number, Text) or not number.value.isdecimal():
            message = f"ndim: expected a number of dimensions for {name.value}"
            fields.collector.add(number.position, "FB0103", message, "write {self: 2}")
            continue
        noun = "dimension" if number.value == "1" else "dimensions"
        text = f"expected at least {number.value} {noun}"
        yield _row(draft, name, f"{name.value}.ndim >= {number.value}", text)


def _square_matrices(fields: Fields, draft: Draft) -> Iterator[tuple[Text, Text]]:
    name = fields.scalar("square_matrices")
    if name is None:
        return
    yield _row(draft, name, f"{name.value}.ndim >= 2", "expected at least 2 dimensions")
    sides = f"{name.value}.shape[-1] == {name.value}.shape[-2]"
    yield _row(draft, name, sides, "expected square matrices")


def _dtypes(fields: Fields, draft: Draft) -> Iterator[tuple[Text, Text]]:
    """Yield a condition per Tensor: its dtype is listed, or the `dtype` to which the operator casts it."""
    dtypes = fields.map("dtypes")
    cast = any(arg.name == "dtype" and show(arg.type) == "ScalarType?" for arg in draft.schema.args)
    for name, node in () if dtypes is None else dtypes.node.items:
        listed = dtypes.texts(name.value) if dtypes is not None and isinstance(node, Sequence) else ()
        allowed = (*keys.CATEGORIES, *DTYPE_NAMES)
        names = [text.value for text in listed if fields.known("check.dtypes", text, allowed)]
        if not names:
            message = f"dtypes: expected a list of categories for {name.value}"
            fields.collector.add(node.position, "FB0103", message, "write {self: [floating, complex]}")
            continue
        dtype = f"value(dtype) if has_value(dtype) else {name.value}.dtype" if cast else f"{name.value}.dtype"
        parts = [
            f"category({dtype}) == '{n}'" if n in keys.CATEGORIES else f"({dtype}) == {n}" for n in names
        ]
        *before, last = names
        shown = f"{', '.join(before)} or {last}" if before else last
        text = f"not implemented for '{{{dtype}}}', expected a dtype that is {shown}"
        yield _row(draft, name, " or ".join(parts), text)


def _row(draft: Draft, name: Text, that: str, expected: str) -> tuple[Text, Text]:
    tensors = [arg for arg in draft.schema.args if is_tensor(arg.type)]
    where = f" in {name.value}" if len(tensors) > 1 else ""
    say = f"{_spoken(draft)}: {expected}{where}, got {{{name.value}}}"
    return name.replaced(that), name.replaced(say)


def _spoken(draft: Draft) -> str:
    """Return the operator's name as users call it; of a private one, the name of what it is a part of."""
    base = draft.schema.name.base.lstrip("_")
    prefix = f"{draft.namespace}_"
    return (
        f"{draft.namespace}.{base.removeprefix(prefix)}"
        if draft.namespace and base.startswith(prefix)
        else base
    )


def _host_value(
    text: Text, span: tuple[int, int | None], draft: Draft, context: Context, what: str, want: BaseType | None
) -> Expr | None:
    """Parse a part of a text that the host can evaluate."""
    expr = parse_with_lets(draft, context, text, what, want, span)
    if expr is None or (call := _first_call(expr)) is None:
        return expr if expr is None or _known_of_numbers(expr, draft, context, what) else None
    message = f"{what} calls {call.form}"
    hint = "read shapes, dtypes and numbers; what depends on elements is checked by the operator itself"
    context.collector.add(call.position, "FB0307", message, hint)
    return None


def _known_of_numbers(expr: Expr, draft: Draft, context: Context, what: str) -> bool:
    """Whether a pointwise operator's number forms can evaluate it: a number has a dtype, and nothing else."""
    if draft.kind_key != "pointwise":
        return True
    numbers = {name for group in draft.scalars for name in group}
    if (
        isinstance(expr, Prop)
        and isinstance(expr.of, Var)
        and expr.of.name in numbers
        and expr.name != "dtype"
    ):
        message = f"{what}: {expr.of.name} may be a number, which has no {expr.name}"
        context.collector.add(expr.of.position, "FB0307", message, "read its dtype")
        return False
    return all([_known_of_numbers(part, draft, context, what) for part in children(expr)])


def _first_call(expr: Expr) -> model.Call | None:
    if isinstance(expr, model.Call):
        return expr
    return next((found for part in children(expr) if (found := _first_call(part)) is not None), None)


def _message(text: Text, draft: Draft, context: Context) -> tuple[str | Expr, ...] | None:
    """Read `text {expression} text`."""
    parts: list[str | Expr] = []
    good = True
    try:
        for part in messages.parts(text.value, 0, len(text.value)):
            if isinstance(part, str):
                parts.append(part)
                continue
            expr = _host_value(text, part, draft, context, f"message of {draft.name}", None)
            good &= expr is not None and messages.can_show(expr, text, part[0] - 1, context.collector)
            if expr is not None:
                parts.append(expr)
    except messages.Unbalanced as unbalanced:
        at = text.at(unbalanced.args[0])
        context.collector.add(at, "FB0301", "unbalanced '{' in say", "write {expression}")
        return None
    return tuple(parts) if good else None
