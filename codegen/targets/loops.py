"""Contiguous loops: cpu/<family>_loops.cpp, compiled once per instruction set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codegen import slots, spelling
from codegen.model import Expr, Model, Operator, Pointwise, Prim, Primitive, Reduce
from codegen.render import File, render

_DTYPES = {
    "bool": ("Bool",),
    "integral": ("UInt8", "Int8", "Int16", "Int32", "Int64"),
    "floating": ("Float32", "Float64"),
    "complex": ("Complex64", "Complex128"),
}
_CPP = {
    "Bool": "bool",
    "UInt8": "uint8_t",
    "Int8": "int8_t",
    "Int16": "int16_t",
    "Int32": "int32_t",
    "Int64": "int64_t",
    "Float32": "float",
    "Float64": "double",
    "Complex64": "complex<float>",
    "Complex128": "complex<double>",
}
_ORDER = "Bool UInt8 Int8 Int16 Int32 Int64 Float16 BFloat16 Float32 Float64 Complex64 Complex128".split()
_OUT = {"compare": "bool", "logical": "bool", "real": "real_t<T>"}
_IDENTITY = {
    "sum": "Acc(0)",
    "prod": "Acc(1)",
    "max": "lowest<Acc>()",
    "min": "highest<Acc>()",
    "any": "false",
    "all": "true",
}
_COMBINE = {
    "sum": "Acc(a + b)",
    "prod": "Acc(a * b)",
    "max": "vec::max(a, b)",
    "min": "vec::min(a, b)",
    "any": "(a | b)",
    "all": "(a & b)",
}
_WIDENING = ("sum", "prod")


@dataclass(frozen=True, slots=True)
class LoopDecl:
    """All that the template prints about one pointwise loop."""

    name: str
    out: str
    inputs: tuple[str, ...]  # pointers to the operands
    constants: tuple[str, ...]  # params, read once
    lines: tuple[str, ...]
    result: str
    simd: bool
    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReduceDecl:
    """All that the template prints about one reduction's loops."""

    name: str
    acc: str
    out: str
    identity: str
    combine: str
    map_lines: tuple[str, ...]
    mapped: str
    finish_lines: tuple[str, ...]
    finished: str
    table: tuple[str, ...]


def compute_dtypes(op: Operator) -> set[str]:
    """The dtypes in which the loop is compiled."""
    allowed = set(op.dtype.allowed)
    if op.dtype.name == "floating":
        allowed &= {"floating", "complex"}
    if isinstance(op.body, Reduce) and op.body.combine in _WIDENING and "integral" in allowed:
        return {"Int64", *(d for c in allowed - {"bool", "integral"} for d in _DTYPES[c])}
    return {dtype for category in allowed for dtype in _DTYPES[category]}


def _table(op: Operator, entry: str, absent: str) -> tuple[str, ...]:
    used = compute_dtypes(op)
    return tuple(entry.format(_CPP[dtype]) if dtype in used else absent for dtype in _ORDER)


def loop_name(op: Operator, case: str) -> str:
    """The stem of the loop's symbols."""
    stem = spelling.struct_name(op.name)
    return f"{stem}_case_{case}" if case else stem


def _prims(expr: Expr) -> Iterator[Prim]:
    if isinstance(expr, Prim):
        yield expr
        for arg in expr.args:
            yield from _prims(arg)


def _constants(params: Sequence[str]) -> list[str]:
    return [
        f"[[maybe_unused]] const T {spelling.local(name)} = param<T>(params, {i});" for i, name in enumerate(params)
    ]


def _pointwise(op: Operator, body: Pointwise, case: str, expr: Expr, rows: dict[str, Primitive]) -> LoopDecl:
    names = [*body.operands, *body.params]
    writer = spelling.ScalarSpelling(rows, {name: spelling.local(name) for name in names}, device=False)
    result = writer.write(expr)
    checks = [
        f"errors |= divides_by_zero({writer.write(prim.args[divisor])});"
        for prim in dict.fromkeys(_prims(expr))
        if (divisor := rows[prim.name].integer_divisor) is not None
    ]
    reads = [f"[[maybe_unused]] const T {spelling.local(name)} = in{i}[i];" for i, name in enumerate(body.operands)]
    return LoopDecl(
        name=loop_name(op, case),
        out=_OUT.get(op.dtype.name, "T"),
        inputs=tuple(
            f"[[maybe_unused]] const T* in{i} = reinterpret_cast<const T*>(data[{i + 1}]);"
            for i in range(len(body.operands))
        ),
        constants=tuple(_constants(body.params)),
        lines=(*reads, *writer.lines, *checks),
        result=result,
        simd=all(rows[prim.name].vectorises for prim in _prims(expr)),
        table=_table(op, "&" + loop_name(op, case) + "_loop<{}>", "nullptr"),
    )


def _fields(names: Sequence[str], array: str) -> list[str]:
    """Element i of each array of the compute type."""
    return [
        f"[[maybe_unused]] const T {spelling.local(name)} = reinterpret_cast<const T*>({array}[{k}])[i];"
        for k, name in enumerate(names)
    ]


def _reduce(op: Operator, body: Reduce, rows: dict[str, Primitive]) -> ReduceDecl:
    lets = [name for name, _ in body.let]
    scope = {name: spelling.local(name) for name in (*body.operands, *lets, *body.params)}
    mapper = spelling.ScalarSpelling(rows, scope, device=False)
    mapped = mapper.write(body.map)
    finisher = spelling.ScalarSpelling(rows, {**scope, "acc": "acc", "count": "count"}, device=False)
    finished = finisher.write(body.finish)
    constants = _constants(body.params)
    logical = body.combine in ("any", "all")
    return ReduceDecl(
        name=loop_name(op, ""),
        acc="bool" if logical else _OUT.get(op.dtype.name, "T"),
        out=_OUT.get(op.dtype.name, "T"),
        identity=_IDENTITY[body.combine],
        combine=_COMBINE[body.combine],
        map_lines=(*_fields([*body.operands, *lets], "in"), *constants, *mapper.lines),
        mapped=mapped,
        finish_lines=(*_fields(lets, "kept"), *constants, *finisher.lines),
        finished=finished,
        table=_table(op, "reduce_loops<" + loop_name(op, "") + "_fiber<{}>>()", "{}"),
    )


def _decls(model: Model, operators: Sequence[Operator]) -> tuple[list[LoopDecl], list[ReduceDecl]]:
    loops: list[LoopDecl] = []
    reductions: list[ReduceDecl] = []
    for op in operators:
        if isinstance(op.body, Pointwise):
            loops += [_pointwise(op, op.body, case, e, model.primitives) for case, e in op.body.cases]
        elif isinstance(op.body, Reduce):
            reductions.append(_reduce(op, op.body, model.primitives))
    return loops, reductions


def emit(model: Model) -> Iterator[File]:
    """Yield one loop file for each family that has pointwise operators or reductions."""
    for family, operators in slots.families(model):
        loops, reductions = _decls(model, operators)
        if loops or reductions:
            yield render("loops.cpp.j2", f"cpu/{family}_loops.cpp", loops=loops, reductions=reductions)
