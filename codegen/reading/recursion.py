"""Composites that always call themselves, directly or through others: they would never return."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from codegen.language.blocks import surely
from codegen.language.pyexpr import children
from codegen.model import Body, Call, Composite, Each, Expr, If, Reduce
from codegen.reading.context import Context
from codegen.reading.entries import Draft


def surely_called(expr: Expr) -> set[str]:
    """Return the forms that are called whichever branches are taken."""
    if isinstance(expr, If):
        return surely_called(expr.condition) | (surely_called(expr.then) & surely_called(expr.other))
    found = {expr.form} if isinstance(expr, Call) else set()
    for child in expr.lists if isinstance(expr, Each) else children(expr):
        found |= surely_called(child)
    return found


def called_in_any_case(body: Body | None) -> frozenset[str]:
    """Return the forms that an operator calls whatever its arguments are."""
    if isinstance(body, Composite):
        return frozenset(surely(body.statements, surely_called))
    parts = body.let if isinstance(body, Reduce) else ()
    return frozenset().union(*(surely_called(expr) for _, expr in parts))


def check_recursion(drafts: Sequence[Draft], called: Mapping[str, Collection[str]], context: Context) -> None:
    """Report each cycle of calls at its first composite; `called`: forms by operator."""
    owners = {form.name: draft.name for draft in drafts for form in draft.forms}
    calls = {name: {owners[form] for form in forms} for name, forms in called.items()}
    reported: set[str] = set()  # one call less mends the whole cycle
    for draft in drafts:
        path = [] if draft.name in reported else _cycle(draft.name, calls)
        reported.update(path)
        text = draft.fields.scalar(draft.kind_key) if path else None
        if text is not None:
            message = f"composite calls itself: {' -> '.join(path)}"
            hint = "no condition ends the recursion: call another operator, or add `if ... else`"
            context.collector.add(text.at(0), "FB0310", message, hint, text.length)


def _cycle(start: str, calls: Mapping[str, set[str]]) -> list[str]:
    """Return a path of calls from an operator back to itself."""
    pending = [[start, name] for name in sorted(calls[start])]
    seen: set[str] = set()
    while pending:
        path = pending.pop()
        if path[-1] == start:
            return path
        if path[-1] not in seen:
            seen.add(path[-1])
            pending += [[*path, name] for name in sorted(calls[path[-1]])]
    return []
