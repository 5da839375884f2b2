"""The formulas of loops for generated kernels: cells/loop_cells.h, and the tables of their names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.deriving import slots
from codegen.model import Model, Operator, Pointwise, Reduce
from codegen.writing.loop_spelling import cells_of, fold_of, includes_of
from codegen.writing.render import File, render


@dataclass(frozen=True, slots=True)
class IndexedDecl:
    """All that the template prints about an operator that reads or writes one element along a dimension."""

    entry: str
    adds: str
    tensor: str
    index: str
    dim: str

    @classmethod
    def of(cls, op: Operator) -> IndexedDecl | None:
        """Return what is printed about an operator; None for others."""
        if op.element is None:
            return None
        element = op.element
        return cls(op.name, str(element.adds).lower(), element.tensor, element.index, element.dim)


def emit(model: Model) -> Iterator[File]:
    """Yield the header of all cells, and the source that names them by their loops."""
    all_ = [op for _, family in slots.families(model) for op in family]
    operators = [op for op in all_ if isinstance(op.body, Pointwise)]
    reductions = [op for op in all_ if isinstance(op.body, Reduce)]
    cells = tuple(cell for op in operators for cell in cells_of(op, model.primitives))
    folds = tuple(fold for op in reductions if (fold := fold_of(op, model.primitives)) is not None)
    indexed = tuple(decl for op in all_ if (decl := IndexedDecl.of(op)) is not None)
    casts = tuple(op.name for op in all_ if "cast" in op.tags)
    includes = includes_of([*operators, *reductions], model.primitives)
    yield render("loop_cells.h.j2", "cells/loop_cells.h", includes=includes, cells=cells, folds=folds)
    tables = {"cells": cells, "folds": folds, "indexed": indexed, "casts": casts}
    yield render("loop_cells.cpp.j2", "aten/loop_cells.cpp", **tables)
