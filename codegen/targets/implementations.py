"""What stands behind dispatcher entries below autograd: aten/<family>_impl.cpp and _kernels.h.

Every entry becomes a FunctionDecl, spelled by codegen/body_spelling.py; a family includes the
headers of those families whose operators its bodies call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codegen import slots, spelling
from codegen.body_spelling import FunctionDecl, body_of, descriptors
from codegen.handwritten import functions
from codegen.model import (
    Call,
    Composite,
    Expr,
    Form,
    Host,
    If,
    Item,
    Model,
    Operator,
    Prop,
    Reduce,
    Seq,
)
from codegen.render import File, render


def _called(expr: object) -> Iterator[str]:
    """The forms that a tensor expression calls."""
    match expr:
        case Call(form=form, args=args):
            yield form
            for arg in args:
                yield from _called(arg)
        case Host(args=args) | Seq(items=args):
            for arg in args:
                yield from _called(arg)
        case Prop(of=of):
            yield from _called(of)
        case If(condition=a, then=b, other=c):
            yield from (*_called(a), *_called(b), *_called(c))
        case Item(of=of, index=index):
            yield from (*_called(of), *_called(index))


def _included(model: Model, operators: Iterable[Operator]) -> set[str]:
    """The families whose operators the bodies call."""
    found: set[str] = set()
    for op in operators:
        exprs: list[Expr | None] = []
        if isinstance(op.body, Composite):
            exprs.append(op.body.expr)
            if op.body.cpp is not None:
                found |= {op2.family for op2, f in slots.forms(model.operators) if _mentions(op.body.cpp, f)}
        elif isinstance(op.body, Reduce):
            exprs += [expr for _, expr in op.body.let]
        for expr in exprs:
            found |= {model.form(name)[0].family for name in _called(expr)}
    return found


def _mentions(cpp: str, form: Form) -> bool:
    return f"ops::{spelling.struct_name(form.name)}::" in cpp


@dataclass(frozen=True, slots=True)
class RuleDecl:
    """A handwritten function that the generated code calls."""

    namespace: str
    text: str


def _rules(op: Operator) -> Iterator[RuleDecl]:
    for function in functions(op.schema, op.body):
        yield RuleDecl(function.namespace, f"{function};")


def emit(model: Model) -> Iterator[File]:
    """Yield the implementations and the declarations of handwritten functions, per family."""
    for family, operators in slots.families(model):
        bodies: list[FunctionDecl] = []
        for op, form in slots.forms(operators):
            for suffix in sorted(set(slots.backends(op, form).values()) - {"autograd"}):
                bodies.append(body_of(model, op, form, suffix))
        rules = tuple(dict.fromkeys(rule for op in operators for rule in _rules(op)))
        includes = sorted(_included(model, operators) | {family})
        yield render(
            "impl.cpp.j2",
            f"aten/{family}_impl.cpp",
            family=family,
            families=tuple(includes),
            descriptors=tuple(d for op in operators for d in descriptors(op)),
            functions=tuple(bodies),
        )
        yield render("kernels.h.j2", f"aten/{family}_kernels.h", rules=rules)
