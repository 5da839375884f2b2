"""Rows of the tables that say what autocast does to the arguments of operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from codegen.language import spelling
from codegen.model import Operator
from codegen.model.enumerations import AUTOCAST_DEVICES


@dataclass(frozen=True, slots=True)
class PolicyDecl:
    """One row of a table."""

    struct: str
    cpu: str
    cuda: str

    @classmethod
    def of(cls, op: Operator) -> PolicyDecl:
        """Name the enumerators of an operator's policies."""
        given = dict(op.autocast)
        cpu, cuda = (spelling.enumerator(given.get(device, "none")) for device in AUTOCAST_DEVICES)
        return cls(spelling.struct_name(op.forms[0].name), cpu, cuda)


def policies(operators: Iterable[Operator]) -> tuple[PolicyDecl, ...]:
    """Return a row for each functional form: a tensor that is written to keeps its dtype."""
    return tuple(PolicyDecl.of(op) for op in operators if op.autocast)
