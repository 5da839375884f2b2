"""Which of PyTorch's names exist, and which callables take the parameters that PyTorch's take."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

POSITIONAL_ONLY, EITHER, ANY_POSITIONAL, KEYWORD_ONLY, ANY_KEYWORD = range(5)
_SAME = {"self": "input", "cls": "input"}  # PyTorch's schemas call the first tensor self, its functions input


def _positional(signature: list[Any]) -> list[Any]:
    return [p for p in signature if p[1] in (POSITIONAL_ONLY, EITHER)]


def takes(ours: list[Any], theirs: list[Any]) -> bool:
    """Whether every call that one signature allows is allowed by another, as far as names and places go."""
    mine, public = ([p for p in _positional(s) if not p[0].startswith("_")] for s in (ours, theirs))
    kinds = {p[1] for p in ours}
    for place, (name, kind, _) in enumerate(public):
        if place >= len(mine):
            if ANY_POSITIONAL not in kinds:
                return False
        elif kind == EITHER and _SAME.get(mine[place][0], mine[place][0]) != _SAME.get(name, name):
            return False
    if ANY_POSITIONAL in {p[1] for p in theirs} and ANY_POSITIONAL not in kinds:
        return False
    known = {p[0] for p in ours if p[1] in (EITHER, KEYWORD_ONLY)}
    for name, kind, _ in theirs:
        if (
            kind == KEYWORD_ONLY
            and not name.startswith("_")
            and name not in known
            and ANY_KEYWORD not in kinds
        ):
            return False
    if ANY_KEYWORD in {p[1] for p in theirs} and ANY_KEYWORD not in kinds:
        return False
    given = {_SAME.get(p[0], p[0]) for p in theirs if not p[2]}
    return all(p[2] or p[1] in (ANY_POSITIONAL, ANY_KEYWORD) or _SAME.get(p[0], p[0]) in given for p in ours)


def calls(signature: list[Any]) -> list[list[Any]]:
    """Return a signature for each choice of the optional parameters that a call may give.

    A parameter behind one that is left out can only be given by name.
    """
    optional = [i for i, p in enumerate(signature) if p[2] and p[1] in (EITHER, KEYWORD_ONLY)]
    if len(optional) > 6:
        return [signature]
    found = []
    for given in product((True, False), repeat=len(optional)):
        left_out = {i for i, is_given in zip(optional, given, strict=True) if not is_given}
        call, by_name = [], False
        for i, (name, kind, _) in enumerate(signature):
            if i in left_out:
                by_name = by_name or kind == EITHER
            else:
                call.append([name, KEYWORD_ONLY if by_name and kind == EITHER else kind, False])
        found.append(call)
    return found


def accepted(ours: list[Any], wanted: list[Any]) -> bool:
    """Whether every call that a signature allows is allowed by one of ours."""
    if any(takes(mine, wanted) for mine in ours):
        return True
    return all(any(takes(mine, call) for mine in ours) for call in calls(wanted))


def alike(ours: dict[str, Any], theirs: dict[str, Any]) -> bool | None:
    """Whether a callable takes what PyTorch's takes; None if either says nothing about its parameters."""
    wanted, have = theirs.get("signatures"), ours.get("signatures")
    if wanted is None or have is None:
        return None
    return all(accepted(have, one) for one in wanted)


@dataclass
class Row:
    """One module: how many names there are in PyTorch and here, and what is missing or differs."""

    module: str
    names: int = 0
    callables: int = 0
    missing: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)


def compare(ours: dict[str, Any], theirs: dict[str, Any]) -> list[Row]:
    """Return a row per module."""
    rows = []
    for module, names in theirs.items():
        # What a class inherits counts where it is defined.
        own = {
            name: facts for name, facts in names.items() if not facts.get("inherited") or module == "Tensor"
        }
        row = Row(module, len(own))
        here = ours.get(module, {})
        for name, facts in own.items():
            if name not in here:
                row.missing.append(name)
            elif (same := alike(here[name], facts)) is not None:
                row.callables += 1
                if not same:
                    row.differing.append(name)
        rows.append(row)
    return rows
