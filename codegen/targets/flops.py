"""Floating-point operations in Python: torchgen_out/package/utils/_flops.py, a module of the package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.deriving.symbolic import NOWHERE
from codegen.language.forms import result_names
from codegen.language.overloads import NONE, default_value
from codegen.language.pyexpr import names_in
from codegen.model import Argument, Expr, FormKind, Kind, Literal, Model, Operator
from codegen.writing.python_expr import Dialect, python_text
from codegen.writing.render import File, render

# Tensors are given as their sizes; None is an absent one.
_OF_SIZES = Dialect(
    {"shape": "{0}", "ndim": "len({0})", "numel": "prod({0})", "defined": "({0} is not None)"}, ""
)


@dataclass(frozen=True, slots=True)
class FormulaDecl:
    """One function of sizes."""

    name: str
    parameters: str
    results: str  # the names that the results are bound to; "" if the expression reads none
    value: str


@dataclass(frozen=True, slots=True)
class CounterDecl:
    """A row of the table that FlopCounterMode reads."""

    base: str
    operator: str
    formula: str


@dataclass(frozen=True, slots=True)
class ProfilerDecl:
    """A row of the table that the profiler reads."""

    form: str
    formula: str  # None: the profiler shows operations neither for the form nor for its parts


def _formula(op: Operator, stem: str, expr: Expr, model: Model) -> FormulaDecl:
    read, names = names_in(expr), result_names(op.schema.returns)
    parts = [f"{arg.name}: Any{_default(arg, read, model)}" for arg in op.schema.args]
    return FormulaDecl(
        name=f"{stem}_{op.name.replace('.', '_')}",
        parameters=", ".join([*parts, "*out: Any", "out_shape: Any = None", "**_: Any"]),
        results=", ".join(names) if read & set(names) else "",
        value=python_text(expr, model, _OF_SIZES),
    )


def _default(arg: Argument, read: set[str], model: Model) -> str:
    """Return what follows a parameter's type; events of a profile give all arguments by position."""
    if arg.default is None:
        return " = None" if arg.kwarg_only else ""
    given = default_value(arg, NOWHERE) if arg.name in read else Literal(None, NONE, NOWHERE)
    return f" = {python_text(given, model, _OF_SIZES)}"


def _profiled(op: Operator, read: set[str], formula: str) -> Iterator[ProfilerDecl]:
    """Yield rows for the forms over tensors; PyTorch shows no operations for those that write in place."""
    for form in op.forms:
        if not read & set(form.numbers):
            yield ProfilerDecl(form.name, "None" if form.kind is FormKind.INPLACE else formula)


def emit(model: Model) -> Iterator[File]:
    """Yield the module."""
    formulas: dict[str, FormulaDecl] = {}
    counters: list[CounterDecl] = []
    profiled: list[ProfilerDecl] = []
    composites: list[CounterDecl] = []
    for op in model.operators:
        flops = op.flops
        if flops is None:
            continue
        counted = None if flops.counter is None else _formula(op, "count", flops.counter, model)
        if counted is not None:
            formulas[counted.name] = counted
            counters.append(CounterDecl(op.schema.name.base, flops.operator, counted.name))
            composites += counters[-1:] if op.kind is Kind.COMPOSITE else []
        if flops.profiler is not None:
            same = flops.profiler == flops.counter
            shown = counted if same and counted is not None else _formula(op, "show", flops.profiler, model)
            formulas[shown.name] = shown
            profiled += _profiled(op, names_in(flops.profiler), shown.name)
    yield render(
        "flops.py.j2",
        "package/utils/_flops.py",
        formulas=tuple(formulas.values()),
        counters=tuple(counters),
        composites=tuple(composites),
        profiled=tuple(profiled),
    )
