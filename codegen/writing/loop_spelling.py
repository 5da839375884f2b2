"""How the bodies of loops are written: the same for the CPU's loops and for device code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from codegen.language import dtypes, spelling
from codegen.model import Expr, Operator, Pointwise, Prim, Primitive, Reduce, Var
from codegen.writing.scalar_spelling import ScalarSpelling

_OUT = {"compare": "bool", "logical": "bool", "real": "real_t<T>"}
_IDENTITY = {
    "sum": "Acc(0)",
    "prod": "Acc(1)",
    "max": "lowest<Acc>()",
    "min": "highest<Acc>()",
    "any": "false",
    "all": "true",
    "xor": "Acc(0)",
}
_COMBINE = {
    "sum": "Acc(a + b)",
    "prod": "Acc(a * b)",
    "max": "vec::max(a, b)",
    "min": "vec::min(a, b)",
    "any": "(a | b)",
    "all": "(a & b)",
    "xor": "Acc(a ^ b)",
}
_WIDENING = ("sum", "prod")


@dataclass(frozen=True, slots=True)
class LoopDecl:
    """All that the templates print about one pointwise loop or cell."""

    name: str
    out: str
    operands: int
    inputs: tuple[str, ...]  # pointers to the operands
    constants: tuple[str, ...]  # params, read once
    lines: tuple[str, ...]
    result: str
    simd: bool
    attribute: str  # asks for the widest vectors
    table: tuple[str, ...]
    stored: tuple[str, ...] = ()  # the loop over bfloat16 as it lies in memory
    function: str = ""  # the C++ function of the operands, if that is the whole formula
    parameters: str = ""  # of the formula as a function
    shared: tuple[str, ...] = ()  # parts that the formula uses more than once
    checks: tuple[str, ...] = ()  # of divisors
    complex_loops: tuple[str, ...] = ()  # the loops over complex numbers, in place of the one over all types

    @property
    def lanes(self) -> str:
        """Arguments that stand for the operands as vectors."""
        return ", ".join(["x"] * self.operands)

    @property
    def pointers(self) -> str:
        """The pointers to the operands, as arguments."""
        return ", ".join(f"in{i}" for i in range(self.operands))

    @property
    def head(self) -> tuple[str, ...]:
        """The lines before the loop's type."""
        return ("template <typename T>", *filter(None, [self.attribute]))

    @property
    def opening(self) -> tuple[str, ...]:
        """The first declarations in the loop's function."""
        return self.inputs + self.constants + self.complex_loops

    @property
    def weight(self) -> str:
        """Whether arithmetic, not memory, bounds the loop."""
        return "true" if self.attribute else "false"

    @property
    def checking(self) -> tuple[str, ...]:
        """The body of the function that checks divisors."""
        if not self.checks:
            return ("return 0;",)
        return ("uint32_t errors = 0;", *self.shared, *self.checks, "return errors;")


@dataclass(frozen=True, slots=True)
class ReduceDecl:
    """All that the templates print about one reduction."""

    name: str
    acc: str
    out: str
    operands: int  # with the let tensors
    lets: int
    identity: str
    combine: str
    map_lines: tuple[str, ...]
    mapped: str
    finish_lines: tuple[str, ...]
    finished: str
    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoldDecl:
    """All that the templates print about a reduction as functions of one element."""

    entry: str
    name: str
    acc: str
    out: str
    identity: str
    combine: str
    parameters: str  # of the map
    map_lines: tuple[str, ...]
    mapped: str
    constants: str  # parameters of the last step
    finish_lines: tuple[str, ...]
    finished: str
    widens: str
    is_sum: str
    is_truth: str
    operands: str
    params: str
    dim: str
    keepdim: str


# What the templates of loops and device functions call their own: an argument of that name would hide it.
_OWN_NAMES = frozenset("data elements errors i in kept n out params T Acc Element Out Stored Value".split())


def _variable(name: str) -> str:
    """An operand's or parameter's name inside a loop."""
    return f"{name}_" if name in _OWN_NAMES else spelling.local(name)


def loop_name(op: Operator, case: str) -> str:
    """Name the loop of one case; "" without cases."""
    stem = spelling.struct_name(op.name)
    return f"{stem}_case_{case}" if case else stem


def widens(op: Operator) -> bool:
    """Whether bool and integers accumulate in int64."""
    return isinstance(op.body, Reduce) and op.body.combine in _WIDENING and op.dtype.name == "promote"


def _computes(op: Operator) -> dict[str, str]:
    """Map each dtype that operands can have in memory to the compute type of its loop.

    The `floating` rule casts integers before the loop.
    """
    converted = {"floating": {"bool", "integral"}, "number": {"bool"}}  # before the loop sees them
    allowed = set(op.dtype.allowed) - converted.get(op.dtype.name, set())
    computes = {name: dtypes.COMPUTE_TYPES[name] for name in dtypes.of_categories(allowed)}
    if widens(op):
        narrow = dtypes.of_categories(("bool", "integral"))
        computes |= {name: dtypes.OWN_TYPES["Int64"] for name in narrow if name in computes}
    return computes


def _loop_table(op: Operator, entry: str, absent: str) -> tuple[str, ...]:
    """Entries by compute dtype."""
    used = set(_computes(op).values())
    own = dtypes.OWN_TYPES
    return tuple(entry.format(own[d]) if own.get(d) in used else absent for d in dtypes.COMPUTED)


# Read as they lie in memory by the reductions that compute in the type named: widening them first
# takes as long as the sum. The processor's instructions for float16 do not come out of plain loops.
_READ_AS_STORED = {"BFloat16": "Float32"}
STORED_TYPES = "c10/core/half.h"  # the header that defines them


def _reduce_table(op: Operator, name: str, lets: int) -> tuple[str, ...]:
    """Entries by compute dtype, and by the dtypes in memory that are read as they are."""
    entries = _loop_table(op, f"reduce_loops<{name}_fiber<{{}}>>()", "{}")
    table = dict(zip(dtypes.COMPUTED, entries, strict=True))
    if lets:
        return tuple(table.values())  # the last step reads them in the compute type
    computes = _computes(op)
    for stored, wide in _READ_AS_STORED.items():
        if computes.get(stored) == dtypes.OWN_TYPES[wide]:
            table[stored] = f"reduce_loops<{name}_fiber<{dtypes.OWN_TYPES[wide]}, c10::{stored}>>()"
    return tuple(table.values())


def _launcher_table(op: Operator, entry: str) -> tuple[str, ...]:
    """Entries by the dtype in memory."""
    computes = _computes(op)
    stored = dtypes.DEVICE_TYPES
    return tuple(
        entry.format(computes[d], stored[d]) if d in computes and stored[d] else "nullptr"
        for d in dtypes.WITH_LOOPS
    )


def _prims(expr: Expr) -> Iterator[Prim]:
    if isinstance(expr, Prim):
        yield expr
        for arg in expr.args:
            yield from _prims(arg)


def _constants(params: Sequence[str]) -> list[str]:
    return [
        f"[[maybe_unused]] const T {_variable(name)} = param<T>(params, {i});"
        for i, name in enumerate(params)
    ]


def _reads(names: Sequence[str], pattern: str) -> list[str]:
    """Read each variable from where `pattern` says that the k-th one lies."""
    return [
        f"[[maybe_unused]] const T {_variable(name)} = {pattern.format(k)};" for k, name in enumerate(names)
    ]


def _pointers(operands: int) -> tuple[str, ...]:
    return tuple(
        f"[[maybe_unused]] const auto* in{i} = reinterpret_cast<const stored_t<T>*>(data[{i + 1}]);"
        for i in range(operands)
    )


def pointwise_loop(op: Operator, case: str, expr: Expr, rows: dict[str, Primitive], device: bool) -> LoopDecl:
    """Spell one case of a pointwise operator."""
    body = op.body
    assert isinstance(body, Pointwise)
    names = [*body.operands, *body.params]
    writer = ScalarSpelling(rows, {name: _variable(name) for name in names}, device)
    result = writer.write(expr)
    name = loop_name(op, case)
    simd = all(rows[prim.name].vectorises for prim in _prims(expr))
    heavy = _is_heavy(expr, rows)
    in_lanes = heavy and not device and op.dtype.name not in _OUT
    stored: tuple[str, ...] = ()
    if device:
        reads, checks = _reads(body.operands, "in[{}]"), []
        table = _launcher_table(op, "&launch_pointwise<" + name + "_cell<{}>, {}>")
    else:
        reads = _reads(body.operands, "in{}[i]")
        checks = _divisor_checks(writer, expr, rows)
        table = _loop_table(op, f"&{name}_loop<{{}}>", "nullptr")
        if simd and not heavy and _keeps_bfloat16(op):
            stored = _bfloat16_loop(name, body, (*writer.lines, f"return store_as<T>({result});"))
            table = _with_entry(table, "BFloat16", f"&{name}_bfloat16_loop")
    return LoopDecl(
        name=name,
        out=_OUT.get(op.dtype.name, "T"),
        operands=len(body.operands),
        inputs=_pointers(len(body.operands)),
        constants=tuple(_constants(body.params)),
        lines=(*reads, *writer.lines, *checks),
        result=result,
        simd=simd,
        attribute="FLAMBEAU_WIDE_VECTORS" if heavy else "",
        table=table,
        stored=stored,
        function=_function_of(expr, body.operands, rows) if in_lanes else "",
        parameters=", ".join(f"[[maybe_unused]] T {_variable(name)}" for name in names),
        shared=tuple(writer.lines),
        checks=tuple(checks),
        complex_loops=() if device else _complex_loops(op, expr, rows, reads, simd),
    )


def _complex_loops(
    op: Operator, expr: Expr, rows: dict[str, Primitive], reads: Sequence[str], simd: bool
) -> tuple[str, ...]:
    """Spell the loop over complex numbers, before it one for the first result of a choice of parameters.

    A choice between real numbers is an operation on vectors; one between complex numbers keeps a loop from
    being vectorised.
    """
    body = op.body
    assert isinstance(body, Pointwise)
    choice = next((p for p in _prims(expr) if _is_choice(p, rows, body.params)), None)
    if "complex" not in op.dtype.allowed or not (simd or choice):
        return ()
    scope = {name: _variable(name) for name in (*body.operands, *body.params)}

    def loop(value: Expr) -> Iterator[str]:
        writer = ScalarSpelling(rows, scope, device=False)
        result = writer.write(value)
        return _cell_loop((*reads, *writer.lines, f"out[i] = store_as<Out>({result});"), simd)

    lines = ["if constexpr (c10::is_complex_v<T>) {"]
    if choice is not None:
        condition = ScalarSpelling(rows, scope, device=False).write(choice.args[0])
        first = loop(_replaced(expr, choice, choice.args[1]))
        lines += [f"  if ({condition}) {{", *(f"    {line}" for line in first), "  }"]
    if simd:
        lines += (f"  {line}" for line in loop(expr))
    return (*lines, "}")


def _cell_loop(lines: Sequence[str], simd: bool) -> Iterator[str]:
    """Spell a loop whose body is a function: GCC keeps objects of a simd loop's own body in memory."""
    yield "const auto cell = [=](int64_t i) __attribute__((always_inline)) {"
    yield from (f"  {line}" for line in lines)
    yield "};"
    yield from ["#pragma omp simd"] if simd else []
    yield "for (int64_t i = 0; i < n; ++i) cell(i);"
    yield "return 0;"


def _is_choice(prim: Prim, rows: dict[str, Primitive], params: Sequence[str]) -> bool:
    """Whether parameters alone decide between two results."""
    return rows[prim.name].infix == "if" and _variables(prim.args[0]) <= set(params)


def _variables(expr: Expr) -> set[str]:
    if isinstance(expr, Var):
        return {expr.name}
    return set().union(*map(_variables, expr.args)) if isinstance(expr, Prim) else set()


def _replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    if expr is old:
        return new
    if not isinstance(expr, Prim):
        return expr
    return replace(expr, args=tuple(_replaced(arg, old, new) for arg in expr.args))


def cells_of(op: Operator, rows: dict[str, Primitive]) -> tuple[LoopDecl, ...]:
    """Spell the cases of a pointwise operator for functions of one element."""
    body = op.body
    assert isinstance(body, Pointwise)
    return tuple(pointwise_loop(op, case, expr, rows, device=False) for case, expr in body.cases)


def _function_of(expr: Expr, operands: Sequence[str], rows: dict[str, Primitive]) -> str:
    """Name the C++ function that a formula calls on the operands in order; "" for other formulas."""
    if not isinstance(expr, Prim):
        return ""
    if [arg.name if isinstance(arg, Var) else "" for arg in expr.args] != list(operands):
        return ""
    places = ", ".join(f"{{{i}}}" for i in range(len(operands)))
    name, call, rest = rows[expr.name].cpp.partition(f"({places})")
    return name if call and not rest else ""


def _keeps_bfloat16(op: Operator) -> bool:
    """Whether the loop of bfloat16 computes in float and returns bfloat16."""
    return _computes(op).get("BFloat16") == "float" and _OUT.get(op.dtype.name) != "bool"


def _bfloat16_loop(name: str, body: Pointwise, lines: Sequence[str]) -> tuple[str, ...]:
    """Spell the loop that calls its cell, `lines`, on numbers of bfloat16 in float."""
    places = ", ".join(str(k) for k in range(len(body.operands)))
    arguments = ", ".join(f"[[maybe_unused]] T {_variable(operand)}" for operand in body.operands)
    return (
        "",
        "FLAMBEAU_WIDE_VECTORS",
        f"uint32_t {name}_bfloat16_loop(int64_t n, char* const* data,",
        "    [[maybe_unused]] const void* params) {",
        "  using T = float;",
        *(f"  {line}" for line in _constants(body.params)),
        f"  each_bfloat16<{places}>(n, data, [&]({arguments}) __attribute__((always_inline)) {{",
        *(f"    {line}" for line in lines),
        "  });",
        "  return 0;",
        "}",
    )


def _with_entry(table: tuple[str, ...], dtype: str, entry: str) -> tuple[str, ...]:
    at = dtypes.COMPUTED.index(dtype)
    return (*table[:at], entry, *table[at + 1 :])


def _is_heavy(expr: Expr, rows: dict[str, Primitive]) -> bool:
    """Whether arithmetic, not memory, bounds the loop: it calls a function of real numbers or of vectors."""
    used = (rows[prim.name] for prim in _prims(expr))
    return any(row.lanes or ("integral" not in row.domains and row.cpp.startswith("vec::")) for row in used)


def _divisor_checks(writer: ScalarSpelling, expr: Expr, rows: dict[str, Primitive]) -> list[str]:
    return [
        f"errors |= divides_by_zero({writer.write(prim.args[divisor])});"
        for prim in dict.fromkeys(_prims(expr))
        if (divisor := rows[prim.name].integer_divisor) is not None
    ]


def reduction(op: Operator, rows: dict[str, Primitive], device: bool) -> ReduceDecl:
    """Spell a reduction."""
    body = op.body
    assert isinstance(body, Reduce)
    lets = [name for name, _ in body.let]
    operands = [*body.operands, *lets]
    scope = {name: _variable(name) for name in (*operands, *body.params)}
    mapper = ScalarSpelling(rows, scope, device)
    mapped = mapper.write(body.map)
    real = ("acc", "count") if op.dtype.name == "real" else ()
    finisher = ScalarSpelling(rows, {**scope, "acc": "acc", "count": "count"}, device, real)
    finished = finisher.write(body.finish)
    constants = _constants(body.params)
    name = loop_name(op, "")
    mapped_place, kept_place = (
        ("in[{}]", "kept[{}]")
        if device
        else (
            "T(reinterpret_cast<const Stored*>(in[{}])[i])",
            "reinterpret_cast<const stored_t<T>*>(kept[{}])[i]",
        )
    )
    table = (
        _launcher_table(op, "&launch_reduce<" + name + "_fiber<{}>, {}>")
        if device
        else _reduce_table(op, name, len(lets))
    )
    return ReduceDecl(
        name=name,
        acc="bool" if body.combine in ("any", "all") else _OUT.get(op.dtype.name, "T"),
        out=_OUT.get(op.dtype.name, "T"),
        operands=len(operands),
        lets=len(lets),
        identity=_IDENTITY[body.combine],
        combine=_COMBINE[body.combine],
        map_lines=(*_reads(operands, mapped_place), *constants, *mapper.lines),
        mapped=mapped,
        finish_lines=(*_reads(lets, kept_place), *constants, *finisher.lines),
        finished=finished,
        table=table,
    )


def _is_plain(body: Reduce) -> bool:
    """Whether a reduction combines its operand's elements as they are."""
    is_operand = isinstance(body.map, Var) and body.map.name in body.operands
    return is_operand and isinstance(body.finish, Var) and body.finish.name == "acc"


def fold_of(op: Operator, rows: dict[str, Primitive]) -> FoldDecl | None:
    """Spell a reduction for functions of one element; None for those that read more than their operands."""
    body = op.body
    assert isinstance(body, Reduce)
    if body.let or body.dim is None or op.dtype.name == "real":
        return None
    scope = {name: _variable(name) for name in (*body.operands, *body.params)}
    mapper = ScalarSpelling(rows, scope, False)
    mapped = mapper.write(body.map)
    finisher = ScalarSpelling(rows, {**scope, "acc": "acc", "count": "count"}, False)
    finished = finisher.write(body.finish)
    constants = [f"[[maybe_unused]] T {_variable(name)}" for name in body.params]
    operands = [f"[[maybe_unused]] T {_variable(name)}" for name in body.operands]
    is_bool = body.combine in ("any", "all")
    return FoldDecl(
        entry=op.name,
        name=loop_name(op, ""),
        acc="bool" if is_bool else "T",
        out=_OUT.get(op.dtype.name, "T"),
        identity=_IDENTITY[body.combine],
        combine=_COMBINE[body.combine],
        parameters=", ".join([*operands, *constants]),
        map_lines=tuple(mapper.lines),
        mapped=mapped,
        constants="".join(f", {text}" for text in constants),
        finish_lines=tuple(finisher.lines),
        finished=finished,
        widens=str(widens(op)).lower(),
        is_sum=str(body.combine == "sum" and _is_plain(body)).lower(),
        is_truth=str(is_bool).lower(),
        operands=" ".join(body.operands),
        params=" ".join(body.params),
        dim=body.dim,
        keepdim=body.keepdim or "",
    )


def includes_of(operators: Sequence[Operator], rows: dict[str, Primitive]) -> tuple[str, ...]:
    """The headers that the primitives of a family need beside vector math."""
    expressions: list[Expr] = []
    for op in operators:
        if isinstance(op.body, Pointwise):
            expressions += [expr for _, expr in op.body.cases]
        elif isinstance(op.body, Reduce):
            expressions += [op.body.map, op.body.finish]
    named = {rows[prim.name].include for expr in expressions for prim in _prims(expr)}
    return tuple(sorted(name for name in named if name is not None))


def loops_of(
    operators: Sequence[Operator], rows: dict[str, Primitive], device: bool
) -> tuple[tuple[LoopDecl, ...], tuple[ReduceDecl, ...]]:
    """Spell every pointwise loop and every reduction of a family."""
    loops: list[LoopDecl] = []
    reductions: list[ReduceDecl] = []
    for op in operators:
        if isinstance(op.body, Pointwise):
            loops += [pointwise_loop(op, case, expr, rows, device) for case, expr in op.body.cases]
        elif isinstance(op.body, Reduce):
            reductions.append(reduction(op, rows, device))
    return tuple(loops), tuple(reductions)
