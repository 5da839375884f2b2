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
    "functionalised": "operators under functionalize against the operators",
    "autocast": "operators under autocast to bfloat16: dtypes and values",
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
    for check in ("backward", "second", "tangent", "vmap", "functionalised", "autocast"):
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

The command `make parity` runs every entry of PyTorch 2.13's operator database (`op_db`) against flambeau. It
tests up to 12 samples for each of float32, float64, int64, bool, complex64, bfloat16 and float16 that the
entry lists, derivatives in float64 and complex128 along random directions, vmap in float32, over
each tensor and over all tensors, functionalize in float32, and autocast to bfloat16 in float32 and
bfloat16. The same rules apply to every entry.

A result that differs from PyTorch's still agrees in four cases. A result of a half type agrees if
PyTorch computes it in float64 from the same numbers. Indices agree if the elements at these indices are
equal and the call does not request `stable` order. Tangents agree if they match PyTorch's own gradients.
Uninitialized memory is not compared. Inside autocast the dtypes must be equal, and the values must agree
within the tolerance of bfloat16 with PyTorch's results inside the region, or with its results in float32
and float64 outside of it. An entry also counts as failing if PyTorch's result is wrong; the cause then
states this.

Changed calls are samples with one argument replaced: by None, text, a number, a tensor of another rank,
size, dtype or device, lists of other lengths, numbers out of range, and tensors for `out=` that do not
fit. If PyTorch raises an exception, flambeau must raise the same type; otherwise it must return the same
result. Four differences are allowed: flambeau may compute a call for which PyTorch has no kernel; it may
refuse a call that mixes meta tensors with others, or a tensor for `out=` whose elements share memory; it
may raise TypeError instead of AttributeError for a value of another type. The test runs a quarter of the
calls, drawn with a seed (`FLAMBEAU_WRONG_CALLS=1`: all), and `make parity` names those that differ.

The command `python -m parity --page` writes this page; `test/parity/causes.json` contains the causes.

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
