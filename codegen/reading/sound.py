"""The sound part of a specification: what can be built while some entries still have mistakes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from codegen.language.calls import dependencies
from codegen.model import Operator, Position
from codegen.source.diagnostics import Diagnostic


def sound_operators(
    operators: Iterable[Operator],
    found: Sequence[Diagnostic],
    entries: Iterable[tuple[str, Position]],
) -> tuple[Operator, ...]:
    """Drop operators whose entries hold a mistake, and those that depend on them.

    `entries` says which operator each entry of either file belongs to.
    """
    starts: dict[str, list[tuple[int, str]]] = {}
    for name, position in entries:
        starts.setdefault(position.file, []).append((position.line, name))
    faulty: set[str] = set()
    for diagnostic in found:
        lines = sorted(starts.get(diagnostic.file, []))
        index = bisect_right(lines, diagnostic.line, key=lambda pair: pair[0]) - 1
        if index >= 0:
            faulty.add(lines[index][1])
    every = tuple(operators)
    kept = [op for op in every if op.name not in faulty]
    while True:
        forms = {form.name for op in kept for form in op.forms}
        sound = [op for op in kept if dependencies(op) <= forms]
        if len(sound) == len(kept):
            return tuple(sound)
        kept = sound
