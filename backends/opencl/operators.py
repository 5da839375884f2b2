"""Run the generated operator tests' calls on OpenCL and on the CPU, and print the table operators x dtypes.

A call passes if its results are those of the CPU: dtypes, shapes, values. Marks: `K` a kernel of the device,
`c` the fallback to the CPU for some calls or all, `-` the operator refuses the dtype, `!` a difference.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "test" / "ops"), str(Path(__file__).parent)]

import flambeau as fb  # noqa: E402
import flambeau_opencl  # noqa: E402, F401
import numpy as np  # noqa: E402
from op_cases import Op, calls, flat, is_tensor, operators, run, tensors, to_array  # noqa: E402

DTYPES = ("float32", "float64", "int32", "int64", "bool", "float16", "complex64")
TOLERANCE = {"float32": 2e-4, "float64": 1e-9, "float16": 2e-2}


def on_device(arguments: dict[str, Any]) -> dict[str, Any]:
    """Copy all tensors among the arguments to the device."""

    def moved(value: Any) -> Any:
        if is_tensor(value):
            return value.to("opencl")
        if isinstance(value, list | tuple) and not isinstance(value, fb.Size):
            return type(value)(map(moved, value))
        return value

    return {name: moved(value) for name, value in arguments.items()}


def outcome(op: Op, arguments: dict[str, Any]) -> Any:
    """Return the results as a list, or the exception."""
    try:
        return flat(run(op, arguments))
    except Exception as error:
        return error


def differences(found: Any, expected: Any, dtype: str) -> str:
    """Return what differs between the results of the device and of the CPU; "" if nothing does."""
    if isinstance(expected, Exception):
        return (
            "" if type(found) is type(expected) else f"{type(expected).__name__} expected, got {found!r:.200}"
        )
    if isinstance(found, Exception):
        return f"{type(found).__name__}: {found!s:.200}"
    for a, b in zip(found, expected, strict=True):
        if not is_tensor(b):
            if a != b and not (a != a and b != b):
                return f"{b!r} expected, got {a!r}"
            continue
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{b.dtype}{tuple(b.shape)} expected, got {a.dtype}{tuple(a.shape)}"
        bound = TOLERANCE.get(dtype, 2e-4 if b.is_floating_point() or b.is_complex() else 0)
        x, y = to_array(a.cpu()), to_array(b)
        if not np.allclose(x, y, rtol=bound, atol=bound, equal_nan=True):
            return f"values differ: {x.flatten()[:4]} and {y.flatten()[:4]}"
    return ""


# What the core refuses on every device but the CPU.
HOST_ONLY = (
    "expected sparse tensors on the CPU",
    "sections or indices on the CPU",
    "int64 elements on the CPU",
)


def is_random(op: Op) -> bool:
    """Whether two runs may give different values."""
    return not {"random", "uninitialized", "nondeterministic"}.isdisjoint(op.tags)


def mark(op: Op, dtype: str, notes: list[str]) -> str:
    """Run all calls of an operator in a dtype."""
    if dtype not in op.dtypes() or is_random(op):
        return "-"
    marks = set()
    for number, call in enumerate(calls(op)):
        try:
            arguments = tensors(call.materialise(dtype), dtype)
        except Exception:
            continue
        expected = outcome(op, arguments)
        fb.utils.set_privateuse1_fallback("error")
        found = outcome(op, on_device(arguments))
        if isinstance(found, NotImplementedError) and "no kernel for this call" in str(found):
            fb.utils.set_privateuse1_fallback("silent")
            marks.add("c")
            found = outcome(op, on_device(arguments))
        elif not isinstance(expected, Exception):
            marks.add("K")
        if isinstance(found, Exception) and any(text in str(found) for text in HOST_ONLY):
            marks.discard("K")
            continue
        try:
            text = differences(found, expected, dtype)
        except Exception as error:
            text = f"not compared: {type(error).__name__}: {error!s:.100}"
        if text:
            notes.append(f"{op.name} {dtype} call {number}: {text}")
            marks.add("!")
    return next((m for m in "!cK" if m in marks), "-")


def main() -> None:
    """Print the table and the counts; fail if a result differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="operators; default all")
    parser.add_argument("--output", type=Path, help="a file for the table, in Markdown")
    arguments = parser.parse_args()
    notes: list[str] = []
    rows, counts = [], {dtype: Counter() for dtype in DTYPES}
    for name, op in operators().items():
        if arguments.names and name not in arguments.names:
            continue
        marks = [mark(op, dtype, notes) for dtype in DTYPES]
        rows.append(f"| `{name}` | " + " | ".join(marks) + " |")
        for dtype, m in zip(DTYPES, marks, strict=True):
            counts[dtype][m] += 1
        print(f"{name:45} {' '.join(marks)}", flush=True)
    head = ["| operator | " + " | ".join(DTYPES) + " |", "|---" * (len(DTYPES) + 1) + "|"]
    summary = [
        f"{d}: {c['K']} on the device, {c['c']} with the CPU, {c['!']} differ" for d, c in counts.items()
    ]
    if arguments.output:
        arguments.output.write_text("\n".join([__doc__ or "", *summary, "", *head, *rows, ""]))
    print("\n".join([*notes, *summary]))
    sys.exit(bool(notes))


if __name__ == "__main__":
    main()
