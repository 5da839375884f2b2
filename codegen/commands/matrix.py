"""`matrix`: operators by artefact: given, derived, missing, or - where it does not apply."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from codegen.commands.check import print_text
from codegen.deriving.provenance import ABSENT, DERIVED, GIVEN, MISSING, artefacts, totals
from codegen.load import load
from codegen.model import Model
from codegen.reading.files import ROOT, counts

_NAMED = 8
LOOPS = ROOT / "docs" / "vmap-loops.md"
_LETTERS = {GIVEN: "G", DERIVED: "d", MISSING: "!", ABSENT: "."}


def run(argv: list[str]) -> int:
    """Print the totals, and one row per operator with --all."""
    parser = argparse.ArgumentParser(prog="codegen matrix", description=__doc__)
    parser.add_argument("--all", action="store_true", help="one row per operator")
    parser.add_argument("--loops", action="store_true", help="write docs/vmap-loops.md")
    options = parser.parse_args(argv)
    model, found = load(keep_going=True)
    if found:
        print_text(found, sys.stderr)
    assert model is not None
    table = totals(model)
    used = {name: row for name, row in table.items() if row[ABSENT] < sum(row.values())}
    if options.loops:
        LOOPS.write_text(loops(model), encoding="utf-8")
    if options.all:
        print("\n".join(_rows(model, list(used))))
    print("\n".join(_totals(model, used)))
    return 1 if found else 0


def loops(model: Model) -> str:
    """The page of operators that vmap calls once per entry of the batch."""
    rows = [
        f"| `{op.name}` | {artefact.detail} |"
        for op in model.operators
        for artefact in artefacts(op)
        if artefact.name == "vmap" and artefact.status == MISSING
    ]
    return "\n".join([_LOOPS_HEAD.format(count=len(rows)), *rows, ""])


_LOOPS_HEAD = """# Operators that run in a loop under vmap

These {count} operators have no batching rule: vmap calls them once per entry of the batch and warns at the
first call. Other operators also run in a loop if their rules do not place a batched argument.
`python -m codegen matrix --loops` writes this page.

| operator | why |
|---|---|"""


def _rows(model: Model, names: list[str]) -> Iterator[str]:
    yield f"{'':<44}" + " ".join(name.rjust(10) for name in names)
    for op in model.operators:
        cells = {a.name: _LETTERS[a.status] for a in artefacts(op)}
        yield f"{op.name:<44}" + " ".join(cells.get(name, ".").rjust(10) for name in names)
    yield "G given, d derived, ! missing, . of no use to the operator\n"


def _totals(model: Model, table: dict[str, dict[str, int]]) -> Iterator[str]:
    yield f"{'artefact':<12}{GIVEN:>9}{DERIVED:>9}{MISSING:>9}"
    for name, row in table.items():
        yield f"{name:<12}{row[GIVEN]:>9}{row[DERIVED]:>9}{row[MISSING]:>9}"
    yield from _missing(model)
    declared = [op for op in model.operators if not op.internal]
    yield counts(declared, model.primitives)
    yield f"{len(model.operators) - len(declared)} more operators for gradients"


def _missing(model: Model) -> Iterator[str]:
    """Name what is missing, artefact by artefact; long lists are cut."""
    gaps: dict[str, list[str]] = {}
    for op in model.operators:
        for artefact in artefacts(op):
            if artefact.status == MISSING:
                gaps.setdefault(artefact.name, []).append(op.name)
    for name, operators in gaps.items():
        more = f", and {len(operators) - _NAMED} more (--all)" if len(operators) > _NAMED else ""
        yield f"missing {name}: {', '.join(operators[:_NAMED])}{more}"
