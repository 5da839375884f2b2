"""The table of verdicts, counted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

CAUSES = Path(__file__).with_name("causes.json")  # why entries differ: for readers, no check looks at it
INTENDED = CAUSES.with_name("intended.md")
FORMS = ("function", "method", "inplace", "out")
CALLS = ("wrong", "changed")  # counted call by call
CHECKS = {
    "forward": "(operator, dtype) pairs: value, shape, dtype, all forms",
    "function": "  of these the function form",
    "method": "  of these the method form",
    "inplace": "  of these the in-place form",
    "out": "  of these the out= form",
    "backward": "differentiable operators: gradients",
    "second": "  second order",
    "tangent": "  forward mode",
    "vmap": "operators that PyTorch's vmap takes: vmap against a loop",
    "error": "error inputs: same type of exception",
    "wrong": "samples changed in one argument, refused by PyTorch: same exception",
    "changed": "samples changed in one argument, accepted by PyTorch: same result",
}


class Summary:
    """Counts of what agrees: `rows[check]` is (passed, total)."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.entries = len(table)
        self.crashes = sorted(
            f"{name}: {cells['crashed']}" for name, cells in table.items() if "crashed" in cells
        )
        passed: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for name, cells in table.items():
            for check, ok in _counted(name, cells):
                total[check] += 1
                passed[check] += ok
        self.rows = {check: (passed[check], total[check]) for check in CHECKS}


def _counted(name: str, cells: dict[str, Any]) -> list[tuple[str, bool]]:
    """(check, whether it holds) once per pair of operator and dtype, per operator, or per error input."""
    if "crashed" in cells:
        return [("forward", False), ("function", False)]
    found: list[tuple[str, bool]] = []
    dtypes: dict[str, dict[str, bool]] = {}
    for key, cell in cells.items():
        check, dtype = key.split()
        if check in ("error", *CALLS):
            found += [(check, True)] * cell["passed"] + [(check, False)] * cell["failed"]
        elif check in FORMS:
            dtypes.setdefault(dtype, {})[check] = not cell["failed"]
    for forms in dtypes.values():
        found.append(("forward", all(forms.values())))
        found += forms.items()
    for check in ("backward", "second", "tangent", "vmap"):
        held = [not cell["failed"] for key, cell in cells.items() if key.split()[0] == check]
        if held:
            found.append((check, all(held)))
    return found


def print_summary(summary: Summary) -> None:
    """One line per group."""
    print(f"{summary.entries} entries of PyTorch's operator database")
    for check, meaning in CHECKS.items():
        passed, total = summary.rows[check]
        share = f"{100 * passed / total:6.2f}%" if total else "     -"
        print(f"  {meaning:62} {passed:5} of {total:5}  {share}")
    print(f"  {'crashes and timeouts':62} {len(summary.crashes):5}")
    for crash in summary.crashes:
        print(f"    {crash}")


def print_details(table: dict[str, Any]) -> None:
    """Every check that does not hold, once per distinct causes, with the dtypes it concerns."""
    for name, cells in table.items():
        alike: dict[tuple[str, ...], list[str]] = {}
        for key, cell in cells.items():
            if key != "crashed" and cell["failed"]:
                check, dtype = key.split()
                alike.setdefault((check, *cell["causes"]), []).append(dtype)
        for (check, *causes), dtypes in alike.items():
            print(f"{name} [{check}: {' '.join(dtypes)}]")
            for cause in causes:
                print(f"    {cause}")


INTRODUCTION = """# Parity with PyTorch

`make parity` runs every entry of PyTorch 2.13's own operator database (`op_db`) against flambeau: up to 12
samples for each of float32, float64, int64, bool, complex64, bfloat16 and float16 where the entry lists them;
derivatives in float64 and complex128 along random directions; vmap in float32, over each tensor and over all.
No entry is treated in a way of its own.

What differs from PyTorch's result may still agree, by four rules for all entries: a result of a half type
agrees if it is the one that PyTorch gives in float64 from the same numbers; indices agree if what they point
at is equal and the call does not ask for `stable` order; tangents agree if they are those that PyTorch's own
gradients imply; memory that nobody wrote to is not compared.
An entry counts as failing also where PyTorch is in error itself; the cause says so.

Changed calls are samples with one argument replaced: by None, text, a number, a tensor of another rank,
size, dtype or device, lists of other lengths, numbers out of range, and tensors for `out=` that do not fit.
What PyTorch refuses must raise the same type of exception, the rest must give the same result. Four
differences are allowed: what PyTorch has no kernel for may be computed; calls that mix meta tensors with
others may be refused, and so may tensors for `out=` whose elements share memory; AttributeError for a value
of another type may be TypeError. A quarter of the calls, drawn with a seed, is tried
(`FLAMBEAU_WRONG_CALLS=1`: all); `make parity` names those that differ.

This page is written by `python -m parity --page`; causes are those of `test/parity/causes.json`.

| | agree | of | |
|---|---|---|---|"""


def markdown(table: dict[str, Any]) -> str:
    """The page docs/parity.md: counts, then by name what does not agree and the first cause."""
    summary = Summary(table)
    lines = [INTRODUCTION]
    for check, meaning in CHECKS.items():
        passed, total = summary.rows[check]
        lines.append(f"| {meaning.strip()} | {passed} | {total} | {100 * passed / max(total, 1):.1f}% |")
    lines += [
        f"| crashes and timeouts | {len(summary.crashes)} | {summary.entries} | |",
        "",
        "## What remains",
        "",
    ]
    lines += [f"- `{crash}`" for crash in summary.crashes]
    known = json.loads(CAUSES.read_text())
    for name, cells in table.items():
        failing: dict[str, list[str]] = {}
        causes: list[str] = []
        for key, cell in cells.items():
            if key != "crashed" and cell["failed"] and not key.startswith(CALLS):
                check, dtype = key.split()
                failing.setdefault(check, []).append(dtype)
                causes += cell["causes"]
        if failing:
            where = "; ".join(f"{check} ({', '.join(dtypes)})" for check, dtypes in failing.items())
            lines.append(f"- `{name}`: {where}: {_shortened(causes[0])}")
            if name in known:
                lines.append(f"  {known[name]}")
    return "\n".join([*lines, "", INTENDED.read_text()])


def _shortened(cause: str) -> str:
    return cause if len(cause) < 110 else cause[:107] + "..."
