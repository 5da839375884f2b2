"""Lowerings in Python: torchgen_out/lowering/<family>.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.deriving import slots
from codegen.model import Composite, Model, Operator, Pointwise, Reduce
from codegen.writing.oracle import numpy_text, pointwise_text
from codegen.writing.python_expr import message_text, python_lines, python_text
from codegen.writing.render import File, render


@dataclass(frozen=True, slots=True)
class LoweringDecl:
    """The lines of one operator's entry."""

    lines: tuple[str, ...]


def _identifier(op: Operator) -> str:
    return "lower_" + op.name.replace(".", "_")


def _composite(op: Operator, body: Composite, model: Model) -> Iterator[str]:
    names = ["ops", "host", *(a.name for a in op.schema.args)]
    yield f"def {_identifier(op)}({', '.join(f'{name}: Any' for name in names)}) -> Any:"
    for check in op.checks:
        yield f"    if not {python_text(check.condition, model)}:"
        yield f"        raise {check.error}({message_text(check.message, model)})"
    yield from (f"    {line}" for line in python_lines(body.statements, model))
    yield ""
    yield ""
    yield f"COMPOSITE[{op.name!r}] = {_identifier(op)}"


def _lines(op: Operator, model: Model) -> tuple[str, ...]:
    match op.body:
        case Pointwise() as body:
            text = pointwise_text(body, model.primitives)
            params = (*body.params, *((body.switch,) if body.switch else ()))
            return (f"POINTWISE[{op.name!r}] = ({body.operands!r}, {params!r}, {text!r})",)
        case Reduce() as body if not body.let:
            texts = (
                numpy_text(body.map, model.primitives),
                body.combine,
                numpy_text(body.finish, model.primitives),
            )
            return (f"REDUCE[{op.name!r}] = {texts!r}",)
        case Composite() as body:
            return tuple(_composite(op, body, model))
    return ()


def emit(model: Model) -> Iterator[File]:
    """Yield one table per family."""
    for family, operators in slots.families(model):
        entries = tuple(LoweringDecl(lines) for op in operators if (lines := _lines(op, model)))
        if entries:
            yield render("lowering.py.j2", f"lowering/{family}.py", entries=entries)
