"""Rows of the tables of OpenCL kernels: what the templates print about each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from codegen.model import Expr, Operator, Pointwise, Primitive, Reduce
from codegen.writing.opencl_spelling import (
    OpenclSpelling,
    categories,
    is_spelled,
    is_spelled_complex,
    variable,
)

_BITS = {"bool": 1, "integral": 2, "floating": 4}
_COMPLEX = 8
_COMBINE = {  # the identity, and how two parts join
    "sum": ("0", "a + b"),
    "prod": ("1", "a * b"),
    "max": ("LOWEST", "maximum_of(a, b)"),
    "min": ("HIGHEST", "minimum_of(a, b)"),
    "any": ("0", "(a != 0) || (b != 0)"),
    "all": ("1", "(a != 0) && (b != 0)"),
    "xor": ("0", "a ^ b"),
}
_COMBINE_COMPLEX = {"sum": ("0, 0", "a + b"), "prod": ("1, 0", "mul_of(a, b)")}


@dataclass(frozen=True, slots=True)
class PointwiseDecl:
    """All that the template prints about one case of a pointwise operator."""

    entry: str
    case: str
    switch: str
    rule: str
    categories: int
    operands: str
    params: str
    masks: str
    parameters: str
    lines: tuple[str, ...]
    result: str


@dataclass(frozen=True, slots=True)
class ReduceDecl:
    """All that the template prints about one reduction."""

    entry: str
    rule: str
    categories: int
    operands: str
    params: str
    dim: str
    reduces_all: str
    parameters: str
    finish_parameters: str
    identity: str
    combine: str
    map_lines: tuple[str, ...]
    mapped: str
    finish_lines: tuple[str, ...]
    finished: str


def _mask(op: Operator, exprs: tuple[Expr, ...], rows: Mapping[str, Primitive]) -> int:
    converted = {"floating": {"bool", "integral"}, "number": {"bool"}}  # before the kernel sees them
    allowed = set(op.dtype.allowed) - converted.get(op.dtype.name, set())
    for expr in exprs:
        allowed &= categories(expr, rows)
    return sum(bit for name, bit in _BITS.items() if name in allowed)


def _parameters(names: tuple[str, ...]) -> str:
    return ", ".join(f"const T {variable(name)}" for name in names)


def pointwise_rows(op: Operator, entry: str, rows: Mapping[str, Primitive]) -> Iterator[PointwiseDecl]:
    """Yield the kernels of each case: one for real dtypes, one for complex ones."""
    body = op.body
    assert isinstance(body, Pointwise)
    for case, expr in body.cases:
        mask = _mask(op, (expr,), rows)
        if is_spelled(expr, rows) and mask:
            yield _case(op, entry, rows, case, expr, mask)
        if "complex" in op.dtype.allowed and not body.masks and is_spelled_complex(expr, rows):
            yield _case(op, entry, rows, case, expr, _COMPLEX)


def _case(
    op: Operator, entry: str, rows: Mapping[str, Primitive], case: str, expr: Expr, mask: int
) -> PointwiseDecl:
    body = op.body
    assert isinstance(body, Pointwise)
    names = (*body.operands, *body.params)
    writer = OpenclSpelling(rows, {name: variable(name) for name in names}, mask == _COMPLEX)
    result = writer.write(expr)
    return PointwiseDecl(
        entry=entry,
        case=case,
        switch=body.switch or "",
        rule=op.dtype.name,
        categories=mask,
        operands=" ".join(body.operands),
        params=" ".join(body.params),
        masks=" ".join(body.masks),
        parameters=_parameters(names),
        lines=tuple(writer.lines),
        result=result,
    )


def reduction_rows(op: Operator, entry: str, rows: Mapping[str, Primitive]) -> Iterator[ReduceDecl]:
    """Yield the kernels of a reduction: one for real dtypes, one for complex ones."""
    body = op.body
    assert isinstance(body, Reduce)
    both = (body.map, body.finish)
    mask = _mask(op, both, rows)
    if body.let or op.dtype.name == "real":
        return
    if mask and all(is_spelled(expr, rows) for expr in both):
        yield _reduction(op, entry, rows, mask)
    is_complex = "complex" in op.dtype.allowed and body.combine in _COMBINE_COMPLEX
    if is_complex and all(is_spelled_complex(expr, rows) for expr in both):
        yield _reduction(op, entry, rows, _COMPLEX)


def _reduction(op: Operator, entry: str, rows: Mapping[str, Primitive], mask: int) -> ReduceDecl:
    body = op.body
    assert isinstance(body, Reduce)
    is_complex = mask == _COMPLEX
    identity, combine = (_COMBINE_COMPLEX if is_complex else _COMBINE)[body.combine]
    scope = {name: variable(name) for name in (*body.operands, *body.params)}
    mapper = OpenclSpelling(rows, scope, is_complex)
    mapped = mapper.write(body.map)
    finisher = OpenclSpelling(rows, {**scope, "acc": "acc", "count": "count"}, is_complex)
    finished = finisher.write(body.finish)
    return ReduceDecl(
        entry=entry,
        rule=op.dtype.name,
        categories=mask,
        operands=" ".join(body.operands),
        params=" ".join(body.params),
        dim=body.dim or "",
        reduces_all="true" if body.dim is None or body.no_dims == "all" else "false",
        parameters=_parameters((*body.operands, *body.params)),
        finish_parameters="".join(f", const T {variable(name)}" for name in body.params),
        identity=identity,
        combine=combine,
        map_lines=tuple(mapper.lines),
        mapped=mapped,
        finish_lines=tuple(finisher.lines),
        finished=finished,
    )
