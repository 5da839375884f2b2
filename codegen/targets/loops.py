"""Contiguous loops: cpu/<family>_loops[_<n>].cpp, compiled once per instruction set."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.deriving import slots
from codegen.deriving.parts import loops_in, parts
from codegen.model import Model
from codegen.writing import library_spelling
from codegen.writing.loop_spelling import STORED_TYPES, includes_of, loops_of
from codegen.writing.render import File, render

# In pointwise loops: each costs 0.05 s for each instruction set.
_LIMIT = 12
_LIMIT_OF_EXTENSION = 48  # seldom edited, and built whole: fewer files take less time


def _headers(model: Model, headers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the header of all loops, and what primitives need besides; an extension's holds all of it."""
    first = library_spelling.loop_header(model)
    return (first,) if model.library else (first, *headers)


def emit(model: Model) -> Iterator[File]:
    """Yield files for each family that has pointwise operators or reductions."""
    for family, operators in slots.families(model):
        for suffix, part in parts(
            model, operators, _LIMIT_OF_EXTENSION if model.library else _LIMIT, loops_in
        ):
            loops, reductions = loops_of(part, model.primitives, device=False)
            includes = includes_of(part, model.primitives)
            if reductions:
                includes = tuple(sorted((*includes, STORED_TYPES)))
            yield render(
                "loops.cpp.j2",
                f"cpu/{family}_loops{suffix}.cpp",
                includes=_headers(model, includes),
                loops=loops,
                reductions=reductions,
                tables=[("PointwiseLoop", x) for x in loops] + [("ReduceLoops", x) for x in reductions],
            )
