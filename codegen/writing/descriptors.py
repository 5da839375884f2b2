"""Descriptors of pointwise operators and reductions in C++: what the runtime's drivers read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.language import dtypes, spelling
from codegen.model import Operator, Pointwise, Reduce
from codegen.writing.loop_spelling import loop_name, widens


@dataclass(frozen=True, slots=True)
class DescriptorDecl:
    """A PointwiseOp or ReduceOp."""

    kind: str  # the struct's name
    loop_type: str
    name: str
    fields: tuple[str, ...]  # before the loops


def _mask(op: Operator) -> str:
    return dtypes.mask(op.dtype.allowed)


def descriptors(op: Operator) -> Iterator[DescriptorDecl]:
    """Spell what the drivers must know: one descriptor per case, none for other kinds."""
    name = spelling.quoted(op.schema.name.base)
    rule = f"DTypeRule::{op.dtype.name.capitalize()}"
    if isinstance(op.body, Pointwise):
        masks = sum(1 << op.body.operands.index(name) for name in op.body.masks)
        counts = (str(len(op.body.operands)), str(len(op.body.params)), str(masks))
        for case, _ in op.body.cases:
            stem = loop_name(op, case)
            yield DescriptorDecl("PointwiseOp", "PointwiseLoop", stem, (name, rule, _mask(op), *counts))
    elif isinstance(op.body, Reduce):
        body = op.body
        fields = (
            name,
            rule,
            _mask(op),
            str(len(body.operands) + len(body.let)),
            str(len(body.let)),
            str(len(body.params)),
            "true" if body.empty == "error" else "false",
            "true" if body.no_dims == "all" else "false",
            "true" if widens(op) else "false",
            _acc_sizes(op, body),
        )
        yield DescriptorDecl("ReduceOp", "ReduceLoops", loop_name(op, ""), fields)


def _acc_sizes(op: Operator, body: Reduce) -> str:
    """Spell the size of the accumulator of each compute dtype."""
    types = [dtypes.COMPUTE_TYPES[name] for name in dtypes.COMPUTED]
    if body.combine in ("any", "all"):
        types = ["bool"] * len(types)
    elif op.dtype.name == "real":
        types = [_REAL.get(type_, type_) for type_ in types]
    return dtypes.sizes(types)


_REAL = {"complex<float>": "float", "complex<double>": "double"}
