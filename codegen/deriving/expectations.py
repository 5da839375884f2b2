"""What tests may expect of an operator: which gradients it has, and how often it rounds."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.deriving import slots
from codegen.language.forms import result_names
from codegen.language.pyexpr import children
from codegen.model import (
    Assign,
    Branch,
    Call,
    Composite,
    Effect,
    Expr,
    Kind,
    Loop,
    Model,
    Operator,
    Result,
    Statement,
    Var,
)


def differentiable(op: Operator) -> tuple[list[str], list[str]]:
    """Arguments with a gradient, and those whose gradient is said not to be implemented."""
    if op.derivative is None:
        names = [a.name for a in op.schema.args if slots.is_tensor_like(a.type)]
        return (names if op.kind is Kind.COMPOSITE else []), []
    formulas = op.derivative.formulas
    wanted = [name for f in formulas if f.body for name in f.args]
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


def longest_chain(op: Operator, model: Model, known: dict[str, int]) -> int:
    """Return the longest chain of operators in a composite, each of which rounds its result."""
    if op.name not in known:
        known[op.name] = 1  # what a recursion that a condition ends finds
        if isinstance(op.body, Composite):
            known[op.name] = max(1, _Chains(model, known).body(op.body.statements))
    return known[op.name]


class _Chains:
    """Longest chains of operators behind the values of a function body."""

    def __init__(self, model: Model, known: dict[str, int]) -> None:
        self._model, self._known = model, known
        self._of: dict[str, int] = {}  # by variable

    def body(self, statements: Sequence[Statement]) -> int:
        """Return the longest chain behind a result; the body of a loop counts twice."""
        longest = 0
        for statement in statements:
            match statement:
                case Assign(names=names, value=value):
                    chain = self.chain(value)
                    self._of |= {name: max(chain, self._of.get(name, 0)) for name in names}
                case Result(value=value):
                    longest = max(longest, self.chain(value))
                case Effect(call=Call(args=(Var(name=name), *_)) as call):
                    self._of[name] = self.chain(call)
                case Branch(then=then, other=other):
                    longest = max(longest, self.body(then), self.body(other))
                case Loop(names=names, lists=lists, body=body):
                    self._of |= dict.fromkeys(names, max(map(self.chain, lists)))
                    longest = max(longest, self.body(body), self.body(body))
        return longest

    def chain(self, expr: Expr) -> int:
        """Return the longest chain behind one expression."""
        if isinstance(expr, Var):
            return self._of.get(expr.name, 0)
        own = 0
        if isinstance(expr, Call):
            own = longest_chain(self._model.form(expr.form)[0], self._model, self._known)
        return own + max(map(self.chain, children(expr)), default=0)
