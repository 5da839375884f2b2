"""The formulas of loops for generated kernels: cells/loop_cells.h, and the tables of their names."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.deriving import slots
from codegen.model import Model, Pointwise, Reduce
from codegen.writing.loop_spelling import cells_of, fold_of, includes_of
from codegen.writing.render import File, render


def emit(model: Model) -> Iterator[File]:
    """Yield the header of all cells, and the source that names them by their loops."""
    all_ = [op for _, family in slots.families(model) for op in family]
    operators = [op for op in all_ if isinstance(op.body, Pointwise)]
    reductions = [op for op in all_ if isinstance(op.body, Reduce)]
    cells = tuple(cell for op in operators for cell in cells_of(op, model.primitives))
    folds = tuple(fold for op in reductions if (fold := fold_of(op, model.primitives)) is not None)
    includes = includes_of([*operators, *reductions], model.primitives)
    yield render("loop_cells.h.j2", "cells/loop_cells.h", includes=includes, cells=cells, folds=folds)
    yield render("loop_cells.cpp.j2", "aten/loop_cells.cpp", cells=cells, folds=folds)
