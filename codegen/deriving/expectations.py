"""What tests may expect of an operator: which gradients it has, and how often it rounds."""

from __future__ import annotations

from codegen.deriving import slots
from codegen.language import raw_cpp
from codegen.language.forms import result_names
from codegen.language.pyexpr import children
from codegen.model import Call, Composite, Expr, Kind, Model, Operator


def differentiable(op: Operator) -> tuple[list[str], list[str]]:
    """Arguments with a gradient, and those whose gradient is said not to be implemented."""
    if op.derivative is None:
        names = [a.name for a in op.schema.args if slots.is_tensor_like(a.type)]
        return (names if op.kind is Kind.COMPOSITE else []), []
    formulas = op.derivative.formulas
    wanted = [name for f in formulas if f.expr is not None for name in f.args]
    return wanted, [name for f in formulas if f.not_implemented for name in f.args]


def has_forward(op: Operator, model: Model) -> bool | None:
    """Whether there is a forward rule for every output; None: as its parts have."""
    if op.derivative is None:
        if isinstance(op.body, Composite) and isinstance(op.body.expr, Call):  # another name of one operator
            return False if has_forward(model.form(op.body.expr.form)[0], model) is False else None
        return None if op.kind is Kind.COMPOSITE else False
    unwanted = op.derivative.nondifferentiable_outputs
    ruled = {name for name, _ in op.derivative.forward}
    return all(name in ruled for name in result_names(op.schema.returns) if name not in unwanted)


# C++ does not say which of its calls depend on each other; longer chains than this are not written there.
_LONGEST_IN_CPP = 8


def longest_chain(op: Operator, model: Model, known: dict[str, int]) -> int:
    """Return the longest chain of operators in a composite, each of which rounds what it hands on."""
    if op.name not in known:
        known[op.name] = 1  # what a recursion that a condition ends finds
        if isinstance(op.body, Composite) and op.body.cpp is not None:
            calls = sum(1 for _ in raw_cpp.structs(op.body.cpp))
            known[op.name] = min(max(1, calls), _LONGEST_IN_CPP)
        elif isinstance(op.body, Composite) and op.body.expr is not None:
            known[op.name] = max(1, _chain(op.body.expr, model, known))
    return known[op.name]


def _chain(expr: Expr, model: Model, known: dict[str, int]) -> int:
    own = longest_chain(model.form(expr.form)[0], model, known) if isinstance(expr, Call) else 0
    return own + max((_chain(child, model, known) for child in children(expr)), default=0)
