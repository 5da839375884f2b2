"""The `test:` key: sample domains, sample calls and the reference of the generated tests."""

from __future__ import annotations

import ast

from codegen import keys
from codegen.context import Context
from codegen.entries import Draft
from codegen.fields import Fields, check_keys
from codegen.model import Kind, TestSpec
from codegen.source import Sequence, Text

_EMPTY = TestSpec((), (), None, None, None, ())


def read_test(draft: Draft, context: Context) -> TestSpec:
    """Read `test:`; operators whose samples cannot be derived must give some."""
    fields = draft.fields.map("test")
    spec = _EMPTY if fields is None else _read(draft, fields, context)
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
    check_keys(fields, keys.TEST, names=names)
    samples = fields.texts("samples")
    for sample in samples:
        _check_python(f"f({sample.value}\n)", sample, 2, context)
    reference = fields.scalar("reference")
    if reference is not None:
        _check_python(f"({reference.value}\n)", reference, 1, context)
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
        tuple(_errors(fields, context)),
        fields.text("no_gradient"),
    )


def _check_python(code: str, text: Text, shift: int, context: Context) -> None:
    """Find syntax errors now rather than when the generated test runs."""
    try:
        ast.parse(code, mode="eval")
    except SyntaxError as error:
        at = text.at(max(0, (error.offset or 1) - 1 - shift))
        hint = "samples are Python argument lists, references NumPy expressions"
        context.collector.add(at, "FB0301", f"syntax error: {error.msg}", hint)


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
            context.collector.add(node.position, "FB0103", message, "write [low, high]")
            continue
        if not low < high:
            message = f"{name}: the interval [{low:g}, {high:g}] is empty"
            context.collector.add(node.position, "FB0103", message, "write [low, high], low first")
        found.append((name, (low, high)))
    return found


def _errors(fields: Fields, context: Context) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for group in fields.lists("errors"):
        if len(group) != 3:
            at = group[0].position if group else fields.key_position("errors")
            message = f"errors: expected 3 items, got {len(group)}"
            hint = 'write ["t(3), 5", "IndexError", "out of range"]'
            context.collector.add(at, "FB0103", message, hint)
            continue
        args, exception, pattern = group
        _check_python(f"f({args.value}\n)", args, 2, context)
        found.append((args.value, exception.value, pattern.value))
    return found
