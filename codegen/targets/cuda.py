"""Device code: cuda/<family>.cu, the same scalar expressions as kernels with their launchers."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.deriving import slots
from codegen.model import Model
from codegen.writing.loop_spelling import includes_of, loops_of
from codegen.writing.render import File, render


def emit(model: Model) -> Iterator[File]:
    """Yield one file for each family that has pointwise operators or reductions."""
    for family, operators in slots.families(model):
        loops, reductions = loops_of(operators, model.primitives, device=True)
        if loops or reductions:
            includes = includes_of(operators, model.primitives)
            yield render(
                "cuda.cu.j2", f"cuda/{family}.cu", includes=includes, loops=loops, reductions=reductions
            )
