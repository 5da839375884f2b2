"""Device code: cuda/<family>.cu, the same scalar expressions as kernels with their launchers."""

from __future__ import annotations

from collections.abc import Iterator

from codegen import slots
from codegen.loop_spelling import loops_of
from codegen.model import Model
from codegen.render import File, render


def emit(model: Model) -> Iterator[File]:
    """Yield one file for each family that has pointwise operators or reductions."""
    for family, operators in slots.families(model):
        loops, reductions = loops_of(operators, model.primitives, device=True)
        if loops or reductions:
            yield render("cuda.cu.j2", f"cuda/{family}.cu", loops=loops, reductions=reductions)
