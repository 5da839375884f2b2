"""The `test:` key: sample domains, sample calls and the reference of the generated tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from codegen.language.schema import show_schema
from codegen.language.tensor_expr import unknown
from codegen.model import Kind, TestSpec
from codegen.reading import keys
from codegen.reading.context import Context
from codegen.reading.entries import Draft
from codegen.reading.fields import Fields, check_keys, comma
from codegen.reading.sample_check import Found, check_reference, check_sample
from codegen.source.diagnostics import did_you_mean
from codegen.source.memory import digest
from codegen.source.nodes import Sequence, Text

EMPTY = TestSpec((), (), None, None, None, ())


def read_test(draft: Draft, context: Context) -> TestSpec:
    """Read `test:`; operators whose samples cannot be derived must give some."""
    fields = draft.fields.map("test")
    spec = EMPTY if fields is None else _read(draft, fields, context)
    if draft.is_internal or draft.kind is Kind.POINTWISE or draft.broken:
        return spec
    at = draft.fields.key_position("test")
    if fields is None:
        hint = 'write test: {samples: ["t(2, 3)", "t(0)"], reference: "NumPy expression"}'
        message = f"{draft.name}: no sample calls and no reference to test against"
        context.collector.add(at, "FB0110", message, hint)
        return spec
    if len(spec.samples) < 2:
        message = f"{draft.name}: expected 2 sample calls or more, got {len(spec.samples)}"
        hint = 'write test: {samples: ["t(2, 3)", "t(0)"], reference: ...}'
        context.collector.add(at, "FB0110", message, hint, 4)
    if not {"random", "uninitialized"}.isdisjoint(draft.tags):
        return spec
    if spec.reference is None and fields.node.get("no_reference") is None:
        hint = "write `reference:` in NumPy over the arguments, or `no_reference:` with the reason"
        context.collector.add(at, "FB0110", f"{draft.name}: no reference to test against", hint, 4)
    return spec


def _read(draft: Draft, fields: Fields, context: Context) -> TestSpec:
    names = [a.name for a in draft.schema.args]
    check_keys(fields, keys.TEST, names=names, group=unknown(draft.name, ""))
    samples = fields.texts("samples")
    for key in ("reference", "no_reference", "no_gradient", "tolerance_reason"):
        text = fields.scalar(key)
        if text is not None and not text.value.strip():
            context.collector.add(text.position, "FB0103", f"{key} is empty", f"{key}: {keys.TEST[key].doc}")
    reference = fields.scalar("reference")
    for sample in samples:
        _check_sample(sample, draft, context, strict=True)
    if reference is not None:
        _check_reference(reference, draft, context)
    tolerance = _number(fields, "tolerance", context)
    reason = fields.text("tolerance_reason")
    if tolerance is not None and not reason:
        at = fields.key_position("tolerance")
        hint = "add `tolerance_reason:`"
        context.collector.add(at, "FB0102", "tolerance without a reason", hint, 9)
    return TestSpec(
        tuple(_intervals(fields, names, context)),
        tuple(s.value for s in samples),
        None if reference is None else reference.value,
        tolerance,
        reason,
        tuple(_errors(fields, draft, context)),
        fields.text("no_gradient"),
    )


def _parse(code: str, text: Text, shift: int, context: Context) -> ast.expr | None:
    """Find syntax errors now rather than when the generated test runs."""
    try:
        return ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        offset = error.offset if isinstance(error, SyntaxError) else 1
        why = error.msg if isinstance(error, SyntaxError) else "it is too long"
        at = text.at(max(0, (offset or 1) - 1 - shift))
        hint = "samples are Python argument lists, references NumPy expressions"
        if text.is_plain:
            hint = "quote it: without quotes a comma ends a value inside [...] and {...}"
        group = comma(text) if text.is_plain else ""
        context.collector.add(at, "FB0301", f"syntax error: {why}", hint, group=group)
        return None


def _check_sample(text: Text, draft: Draft, context: Context, strict: bool) -> None:
    """Bind one call; that a text is sound for a schema is remembered."""
    if draft.broken:
        return
    key = digest("sample", show_schema(draft.schema), str(draft.scalars), text.value, str(strict))
    context.memory.recall(key, lambda: _sample_is_sound(text, draft, context, strict) or None)


def _sample_is_sound(text: Text, draft: Draft, context: Context, strict: bool) -> bool:
    tree = _parse(f"f({text.value}\n)", text, 2, context)
    found: list[Found] = []
    if isinstance(tree, ast.Call):
        found = list(check_sample(tree, draft.schema, draft.scalars, strict))[:1]
    elif tree is not None:
        found = [Found(2, "expected the arguments of one call", 'write "t(2, 3), 1"')]
    _report(found, "FB0112", text, 2, draft, context)
    return tree is not None and not found


def _check_reference(text: Text, draft: Draft, context: Context) -> None:
    key = digest("reference", show_schema(draft.schema), text.value, context.oracles.key)
    context.memory.recall(key, lambda: _reference_is_sound(text, draft, context) or None)


def _reference_is_sound(text: Text, draft: Draft, context: Context) -> bool:
    tree = _parse(f"({text.value}\n)", text, 1, context)
    names = [a.name for a in draft.schema.args]
    found = [] if tree is None else list(check_reference(tree, names, context.oracles))
    _report(found, "FB0111", text, 1, draft, context)
    return tree is not None and not found


def _report(
    found: Iterable[Found], code: str, text: Text, shift: int, draft: Draft, context: Context
) -> None:
    for mistake in found:
        at = text.at(max(0, mistake.offset - shift))
        group = unknown(draft.name, mistake.name) if mistake.name else ""
        context.collector.add(at, code, mistake.message, mistake.hint, group=group)


def _number(fields: Fields, key: str, context: Context) -> float | None:
    text = fields.scalar(key)
    if text is None:
        return None
    try:
        return float(text.value)
    except ValueError:
        message = f"{key}: expected a number, got '{text.value}'"
        context.collector.add(text.position, "FB0103", message, "for example 1.0e-5", text.length)
        return None


def _intervals(fields: Fields, names: list[str], context: Context) -> list[tuple[str, tuple[float, float]]]:
    found: list[tuple[str, tuple[float, float]]] = []
    for name in names:
        node = fields.node.get(name)
        if node is None:
            continue
        items = node.items if isinstance(node, Sequence) else ()
        try:
            low, high = (float(t.value) for t in items if isinstance(t, Text))
        except ValueError:
            message = f"{name}: expected an interval"
            group = comma(node) if isinstance(node, Text) else ""
            context.collector.add(node.position, "FB0103", message, "write [low, high]", group=group)
            continue
        if not low < high:
            message = f"{name}: the interval [{low:g}, {high:g}] is empty"
            context.collector.add(node.position, "FB0103", message, "write [low, high], low first")
        found.append((name, (low, high)))
    return found


def _errors(fields: Fields, draft: Draft, context: Context) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for group in fields.lists("errors"):
        if len(group) != 3:
            at = group[0].position if group else fields.key_position("errors")
            message = f"errors: expected 3 items, got {len(group)}"
            hint = 'write ["t(3), 5", "IndexError", "out of range"]'
            context.collector.add(at, "FB0103", message, hint)
            continue
        args, exception, pattern = group
        _check_sample(args, draft, context, strict=False)
        _check_error(exception, pattern, context)
        found.append((args.value, exception.value, pattern.value))
    return found


def _check_error(exception: Text, pattern: Text, context: Context) -> None:
    for name in exception.value.split("|"):
        if name not in (*keys.ERRORS, "ZeroDivisionError"):
            hint = did_you_mean(name, keys.ERRORS, "exceptions")
            message = f"errors: '{name}' is not an exception of an operator"
            context.collector.add(exception.position, "FB0113", message, hint, exception.length)
    try:
        re.compile(pattern.value)
    except re.error as error:
        message = f"errors: the pattern is not a regular expression: {error.msg}"
        hint = "write a backslash before ( ) [ ] * + ? . that stand for themselves"
        context.collector.add(pattern.at(error.pos or 0), "FB0113", message, hint)
