"""The formulas of pointwise loops for generated kernels: cells/loop_cells.h, and the table of their names."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.deriving import slots
from codegen.model import Model, Pointwise
from codegen.writing.loop_spelling import cells_of, includes_of
from codegen.writing.render import File, render


def emit(model: Model) -> Iterator[File]:
    """Yield the header of all cells, and the source that names them by their loops."""
    operators = [op for _, family in slots.families(model) for op in family if isinstance(op.body, Pointwise)]
    cells = tuple(cell for op in operators for cell in cells_of(op, model.primitives))
    includes = includes_of(operators, model.primitives)
    yield render("loop_cells.h.j2", "cells/loop_cells.h", includes=includes, cells=cells)
    yield render("loop_cells.cpp.j2", "aten/loop_cells.cpp", names=tuple(cell.name for cell in cells))
