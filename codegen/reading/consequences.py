"""One mistake, one message: consequences of other mistakes are not reported.

Every stage of loading reports all that it finds wrong. Afterwards, a diagnostic is dropped if it is about
an operator whose own entry holds a mistake that may change its schema or forms, and diagnostics of one
group, such as all uses of an unknown name, become one that counts the further places.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from codegen.model import Position
from codegen.source.diagnostics import Diagnostic

# Mistakes in an entry that leave its schema, forms and kernels what they are.
_LOCAL = ("FB0110", "FB0111", "FB0112", "FB0113", "FB0114", "FB0308", "FB0309", "FB0310", "FB0311")
_SCHEMA = ("FB01", "FB02")
_UNKNOWN = ("FB0303", "FB0401")


@dataclass(slots=True)
class Owners:
    """Which operator each line of a file belongs to."""

    _starts: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def add(self, position: Position, name: str) -> None:
        """An entry of operator `name` ('' if it is not known) begins here."""
        self._starts.setdefault(position.file, []).append((position.line, name))

    def sort(self) -> None:
        """Order the entries; of those in one line the first one added stands for all."""
        for starts in self._starts.values():
            first = {line: name for line, name in reversed(starts)}
            starts[:] = sorted(first.items())

    def of(self, found: Diagnostic) -> str | None:
        """Return the operator whose entry this is in; '' if its name is lost, None outside entries."""
        starts = self._starts.get(found.file, [])
        index = bisect_right(starts, found.line, key=lambda pair: pair[0]) - 1
        return starts[index][1] if index >= 0 else None


def without_consequences(
    found: Iterable[Diagnostic], native: Owners, derivatives: Owners, called: Mapping[str, frozenset[str]]
) -> list[Diagnostic]:
    """Return one diagnostic per mistake. `called` says by which names and symbols an operator is called."""
    every = sorted(found)
    owner = {id(d): native.of(d) for d in every}
    faulty = {name for d in every if (name := owner[id(d)]) is not None and not d.code.startswith(_LOCAL)}
    names = _called_by(faulty, called)
    # Those whose own mistakes may themselves come from another faulty operator do not excuse anybody.
    roots = {
        name
        for d in every
        if (name := owner[id(d)]) is not None
        and not d.code.startswith(_LOCAL)
        and d.about.isdisjoint(names - _called_by({name}, called))
    }
    excused = _called_by(roots, called)
    broken = {
        name
        for d in every
        if (name := owner[id(d)]) in roots and d.code.startswith(_SCHEMA) and d.code not in _LOCAL
    }
    nameless = "" in roots
    unread = {owner[id(d)] for d in every if d.code.startswith("FB03") and d.code != "FB0309"}
    kept: list[Diagnostic] = []
    for d in every:
        own = owner[id(d)]
        mine = _called_by({own}, called) if own else frozenset()
        if not d.about.isdisjoint(excused - mine):
            continue
        if nameless and d.code in _UNKNOWN and d.about:
            continue
        if own in broken and d.code.startswith(("FB03", "FB05", *_LOCAL)):
            continue
        if d.code == "FB0309" and own in unread:
            continue
        if derivatives.of(d) in roots:
            continue
        kept.append(d)
    return _grouped(kept)


def _called_by(operators: Iterable[str], called: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*(called.get(name, frozenset()) for name in operators))


def _rank(found: Diagnostic) -> tuple[bool, bool, Diagnostic]:
    """Entries before formulas before sources: the first is where the mistake is looked for."""
    yaml = found.file.endswith(".yaml")
    return not yaml, found.code.startswith("FB04"), found


def _grouped(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    groups: dict[str, list[Diagnostic]] = {}
    for number, d in enumerate(found):
        groups.setdefault(d.group or f"#{number}", []).append(d)
    return sorted(_joined(sorted(members, key=_rank)) for members in groups.values())


def _joined(members: list[Diagnostic]) -> Diagnostic:
    first, *others = members
    if not others:
        return first
    places = ", ".join(f"{d.file}:{d.line}" for d in others[:3])
    more = f"the same at {places}" + (f" and {len(others) - 3} more" if len(others) > 3 else "")
    return replace(first, hint=f"{first.hint}; {more}" if first.hint else more)
