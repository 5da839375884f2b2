"""Kernels of OpenCL devices as texts in a table, for packages that bring such a device: opencl/*."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.deriving import slots
from codegen.model import Model, Pointwise, Reduce
from codegen.writing.opencl_rows import PointwiseDecl, ReduceDecl, pointwise_rows, reduction_rows
from codegen.writing.render import File, render


def emit(model: Model) -> Iterator[File]:
    """Yield the rows of each family, which are texts alone, and the header that includes them all."""
    included: dict[str, list[str]] = {"pointwise": [], "reductions": []}
    for family, operators in slots.families(model):
        rows: dict[str, list[PointwiseDecl | ReduceDecl]] = {"pointwise": [], "reductions": []}
        for op, form in slots.forms(operators):
            if isinstance(op.body, Pointwise):
                rows["pointwise"] += pointwise_rows(op, form.name, model.primitives)
            elif isinstance(op.body, Reduce):
                rows["reductions"] += reduction_rows(op, form.name, model.primitives)
        for kind, items in rows.items():
            if items:
                path = f"opencl/{family}_{kind}.inc"
                included[kind].append(path)
                yield render(f"opencl_{kind}.inc.j2", path, items=tuple(items))
    paths = {kind: tuple(names) for kind, names in included.items()}
    yield render("opencl_kernels.h.j2", "opencl/kernels.h", **paths)
