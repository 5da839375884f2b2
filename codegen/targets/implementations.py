"""The functions of dispatcher entries below autograd: aten/<family>_impl[_<n>].cpp and _kernels.h.

Every entry becomes a FunctionDecl, spelled by codegen/writing/body_spelling.py; a file includes the
headers of those operators that its bodies call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from codegen.deriving import slots
from codegen.deriving.parts import parts
from codegen.language.blocks import expressions
from codegen.language.calls import forms_called
from codegen.language.handwritten import functions, sparse_functions
from codegen.model import (
    Composite,
    Model,
    Operator,
    Reduce,
)
from codegen.writing import library_spelling
from codegen.writing.body_spelling import FunctionDecl, body_of
from codegen.writing.descriptors import descriptors
from codegen.writing.render import File, render


def _called(operators: Iterable[Operator]) -> set[str]:
    """The forms that the bodies call."""
    called: set[str] = set()
    for op in operators:
        called |= set().union(*(forms_called(check.condition) for check in op.checks))
        if isinstance(op.body, Composite):
            called |= set().union(*map(forms_called, expressions(op.body.statements)))
        elif isinstance(op.body, Reduce):
            called |= set().union(*(forms_called(expr) for _, expr in op.body.let))
    return called


@dataclass(frozen=True, slots=True)
class RuleDecl:
    """A handwritten function that the generated code calls."""

    namespace: str
    text: str


def _rules(op: Operator) -> Iterator[RuleDecl]:
    for function in functions(op.schema, op.body):
        yield RuleDecl(function.namespace, str(function))


# Operators in one file: together they compile in about a second.
_LIMIT = 48


def _source(model: Model, family: str, suffix: str, operators: Sequence[Operator]) -> File:
    """Render the implementations of some operators of a family."""
    bodies: list[FunctionDecl] = []
    for op, form in slots.forms(operators):
        for key in sorted(set(slots.backends(op, form).values()) - {"autograd"}):
            bodies.append(body_of(model, op, form, key))
    return render(
        "impl.cpp.j2",
        f"aten/{family}_impl{suffix}.cpp",
        headers=_headers(model, family, operators),
        scope=library_spelling.scope(model),
        has_sparse=any(op.sparse for op in operators),
        descriptors=tuple(d for op in operators for d in descriptors(op)),
        functions=tuple(bodies),
    )


_RUNTIME = (
    "aten/core/factory.h",
    "aten/core/host_expr.h",
    "aten/core/messages.h",
    "aten/core/promotion.h",
    "aten/core/shape_rules.h",
    "aten/core/tensor_text.h",
    "aten/cpu/pointwise.h",
    "aten/cpu/reduce.h",
    "aten/dispatch/assign.h",
)


def _headers(model: Model, family: str, operators: Sequence[Operator]) -> tuple[str, ...]:
    """Return the headers of the runtime, of the operators that are called, and of the family's kernels."""
    called = library_spelling.operator_headers(
        model, _called(operators) | {form.name for _, form in slots.forms(operators)}
    )
    kernels = f"{library_spelling.folder(model, family)}/aten/{family}_kernels.h"
    return (*library_spelling.runtime_headers(model, _RUNTIME), *called, kernels)


_TYPES = ("aten/core/out_spec.h", "aten/core/view.h")


def emit(model: Model) -> Iterator[File]:
    """Yield the implementations and the declarations of handwritten functions, per family."""
    types = library_spelling.runtime_headers(model, _TYPES)
    for family, operators in slots.families(model):
        for suffix, part in parts(model, operators, _LIMIT):
            yield _source(model, family, suffix, part)
        rules = tuple(dict.fromkeys(rule for op in operators for rule in _rules(op)))
        yield render("kernels.h.j2", f"aten/{family}_kernels.h", headers=types, rules=rules)
    if model.library:
        return
    sparse = (f for op in model.operators for f in sparse_functions(op.schema, op.sparse))
    declared = tuple(dict.fromkeys(RuleDecl(f.namespace, str(f)) for f in sparse))
    yield render("kernels.h.j2", "aten/sparse_rules.h", headers=_TYPES, rules=declared)
