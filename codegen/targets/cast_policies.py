"""What autocast does to the arguments of operators: aten/cast_policies.cpp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.language import spelling
from codegen.model import Model, Operator
from codegen.model.enumerations import AUTOCAST_DEVICES
from codegen.writing.render import File, render


@dataclass(frozen=True, slots=True)
class PolicyDecl:
    """One row of the table."""

    struct: str
    cpu: str
    cuda: str

    @classmethod
    def of(cls, op: Operator) -> PolicyDecl:
        """Name the enumerators of an operator's policies."""
        given = dict(op.autocast)
        cpu, cuda = (spelling.enumerator(given.get(device, "none")) for device in AUTOCAST_DEVICES)
        return cls(spelling.struct_name(op.forms[0].name), cpu, cuda)


def emit(model: Model) -> Iterator[File]:
    """Yield the table: functional forms only, because a tensor that is written to keeps its dtype."""
    operators = [op for op in model.operators if op.autocast]
    yield render(
        "cast_policies.cpp.j2",
        "aten/cast_policies.cpp",
        families=tuple(sorted({op.family for op in operators})),
        rows=tuple(PolicyDecl.of(op) for op in operators),
    )
