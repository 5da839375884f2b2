"""`matrix`: operators by artefact: given, derived, missing, or - where it has no use."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from codegen.commands.check import print_text
from codegen.load import load
from codegen.model import Model
from codegen.provenance import ABSENT, ARTEFACTS, DERIVED, GIVEN, MISSING, artefacts, totals

_LETTERS = {GIVEN: "G", DERIVED: "d", MISSING: "!", ABSENT: "."}


def run(argv: list[str]) -> int:
    """Print the totals, and one row per operator with --all."""
    parser = argparse.ArgumentParser(prog="codegen matrix", description=__doc__)
    parser.add_argument("--all", action="store_true", help="one row per operator")
    options = parser.parse_args(argv)
    model, found = load(keep_going=True)
    if found:
        print_text(found, sys.stderr)
    assert model is not None
    if options.all:
        print("\n".join(_rows(model)))
    print("\n".join(_totals(model)))
    return 1 if found else 0


def _rows(model: Model) -> Iterator[str]:
    yield f"{'':<44}" + " ".join(name[:5].rjust(5) for name in ARTEFACTS)
    for op in model.operators:
        cells = {a.name: _LETTERS[a.status] for a in artefacts(op)}
        yield f"{op.name:<44}" + " ".join(cells.get(name, ".").rjust(5) for name in ARTEFACTS)
    yield f"{_LETTERS[GIVEN]} given, {_LETTERS[DERIVED]} derived, {_LETTERS[MISSING]} missing\n"


def _totals(model: Model) -> Iterator[str]:
    table = totals(model)
    yield f"{'artefact':<12}{GIVEN:>9}{DERIVED:>9}{MISSING:>9}"
    for name, counts in table.items():
        yield f"{name:<12}{counts[GIVEN]:>9}{counts[DERIVED]:>9}{counts[MISSING]:>9}"
    missing = sum(counts[MISSING] for counts in table.values())
    raw = sum(1 for op in model.operators if getattr(op.body, "cpp", None))
    yield f"{len(model.operators)} operators; missing: {missing}; written in raw C++: {raw}"
