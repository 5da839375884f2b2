"""What autocast does to the arguments of operators: aten/cast_policies.cpp."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.model import Model
from codegen.writing.policies import policies
from codegen.writing.render import File, render


def emit(model: Model) -> Iterator[File]:
    """Yield the table."""
    yield render(
        "cast_policies.cpp.j2",
        "aten/cast_policies.cpp",
        families=tuple(sorted({op.family for op in model.operators if op.autocast})),
        rows=policies(model.operators),
    )
