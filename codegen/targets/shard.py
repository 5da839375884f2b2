"""Sharding rules of operators in Python: torchgen_out/package/distributed/tensor/_rules.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.language.show import show
from codegen.model import FormKind, Kind, Model, Operator, Pointwise, Reduce
from codegen.writing.render import File, render

# What joins the results of parts: the reduction itself, where nothing is computed after it.
_JOINED = {("sum", "acc"): "sum", ("max", "acc"): "max", ("min", "acc"): "min", ("sum", "acc / count"): "avg"}


@dataclass(frozen=True, slots=True)
class ShardDecl:
    """One row of the table."""

    form: str
    rule: str  # a tuple, as Python text


def _rule(op: Operator) -> tuple[str, ...] | None:
    """Return the rule of an operator, given or derived; composites have those of their parts."""
    given = str(dict(op.extra).get("shard", ""))
    if given:
        if given.startswith("all but "):
            excluded, comma, _ = given.removeprefix("all but ").partition(",")
            return "but", excluded, "sum" if comma else ""
        return ("labels", given) if "->" in given else (given,)
    match op.body:
        case Pointwise():
            return ("pointwise",)
        case Reduce(dim=dim, keepdim=keepdim, combine=combine, finish=finish, let=()):
            return ("reduce", dim or "", keepdim or "", _JOINED.get((combine, show(finish)), ""))
    return ("view",) if op.kind is Kind.VIEW else None


def _rows(op: Operator) -> Iterator[ShardDecl]:
    rule = None if op.kind is Kind.COMPOSITE else _rule(op)
    for form in op.forms if rule is not None else ():
        if form.kind is FormKind.OUT:
            continue
        own = ("pointwise",) if form.numbers and rule == ("linear",) else rule
        yield ShardDecl(form.name, repr(own))


def emit(model: Model) -> Iterator[File]:
    """Yield the module."""
    rows = tuple(row for op in model.operators for row in _rows(op))
    yield render("shard.py.j2", "package/distributed/tensor/_rules.py", rows=rows)
