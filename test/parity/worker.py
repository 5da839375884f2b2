"""Runs entries of the database one after another: an index per line in, a line of JSON out."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import torch
from workers import serve

from . import autocast, batches, checks, derivatives, functionalised, wrong_calls
from .database import op_db


def _verdicts(op: Any) -> dict[str, Any]:
    """Per check and dtype: how many samples agreed, how many did not, and the first cause."""
    table: dict[str, Any] = {}
    plan = [(checks.forward, name) for name in checks.DTYPES]
    for run in (derivatives.backward, derivatives.tangent):
        plan += [(run, name) for name in derivatives.GRADIENT_DTYPES]
    plan += [(batches.batched, name) for name in batches.DTYPES]
    plan += [(functionalised.functionalised, name) for name in functionalised.DTYPES]
    plan += [(autocast.autocast, name) for name in autocast.DTYPES]
    plan.append((checks.errors, "float32"))
    supported = op.supported_dtypes("cpu")
    first = next((name for name in checks.DTYPES if getattr(torch, name) in supported), "float32")
    plan.append((wrong_calls.wrong, first))
    for run, name in plan:
        dtype = getattr(torch, name)
        if dtype not in supported and run is not checks.errors:
            continue
        try:
            found = list(run(op, dtype))
        except Exception as error:  # PyTorch could not make its own samples
            print(f"{op.name} {name}: {error}", file=sys.stderr)
            continue
        for verdict in found:
            cell = table.setdefault(f"{verdict.check} {name}", {"passed": 0, "failed": 0, "causes": []})
            cell["failed" if verdict.cause else "passed"] += 1
            if verdict.cause and verdict.cause not in cell["causes"][:3]:
                cell["causes"] = [*cell["causes"], verdict.cause][:3]
    return table


def main() -> None:
    """Answer until stdin ends."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    serve(lambda index: _verdicts(op_db[int(index)]))


if __name__ == "__main__":
    main()
