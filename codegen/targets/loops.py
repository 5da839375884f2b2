"""Contiguous loops: cpu/<family>_loops.cpp, compiled once per instruction set."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.deriving import slots
from codegen.model import Model
from codegen.writing.loop_spelling import STORED_TYPES, includes_of, loops_of
from codegen.writing.render import File, render


def emit(model: Model) -> Iterator[File]:
    """Yield one file for each family that has pointwise operators or reductions."""
    for family, operators in slots.families(model):
        loops, reductions = loops_of(operators, model.primitives, device=False)
        if loops or reductions:
            includes = includes_of(operators, model.primitives)
            if reductions:
                includes = tuple(sorted((*includes, STORED_TYPES)))
            yield render(
                "loops.cpp.j2",
                f"cpu/{family}_loops.cpp",
                includes=includes,
                loops=loops,
                reductions=reductions,
                tables=[("PointwiseLoop", x) for x in loops] + [("ReduceLoops", x) for x in reductions],
            )
