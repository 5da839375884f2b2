"""Formulas that backward and forward mode have in common: C++ functions instead of two copies.

The tangent of an elementwise operator is the formula of its gradient at a tangent, so the text of a formula
would stand in `apply` and in the wrapper of each form. A formula of several calls becomes a function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codegen.deriving.saved import NodePlan, Rule, output_names, parts, with_numbers
from codegen.language import spelling
from codegen.language.blocks import expressions, map_expressions
from codegen.language.overloads import TENSOR
from codegen.model import BaseType, Call, Model, Statement, Type, Var
from codegen.writing import tensor_spelling
from codegen.writing.block_spelling import value_lines

_PASSED = frozenset({"Scalar", "bool", "float", "int"})


@dataclass(frozen=True, slots=True)
class SharedFormula:
    """A function of the gradient and of what a formula reads."""

    name: str
    parameters: str
    lines: tuple[str, ...]
    reads: tuple[str, ...]  # the variables after the gradient, in the order of the parameters

    def call(self, name_of: Callable[[str], str]) -> str:
        """Spell a call; `name_of` says how a variable is called there."""
        return f"{self.name}({', '.join(['grad', *map(name_of, self.reads)])})"


def shared_formula(model: Model, plan: NodePlan, rule: Rule, node: str) -> SharedFormula | None:
    """Return the function of a rule, or None if the rule is not shared."""
    derivative = plan.op.derivative
    if derivative is None or len(rule.args) != 1 or rule.missing or not rule.body:
        return None
    if "elementwise" not in dict(derivative.forward).values():
        return None
    exprs = list(expressions(rule.body))
    if sum(isinstance(part, Call) for part in parts(*exprs)) < 2:
        return None
    read = {part.name for part in parts(*exprs) if isinstance(part, Var)}
    types = _types(plan)
    known = [name for name in types if name in read]
    if "grad" not in read or not read <= {"grad", *types}:
        return None
    formula = next((f.body for f in derivative.formulas if f.args == rule.args), ())
    lines = _lines(model, plan, rule.body)
    if not formula or lines != _lines(model, plan, _for_numbers(model, plan, formula)):
        return None
    parameters = ["const Tensor& grad", *(f"{types[name]} {spelling.local(name)}" for name in known)]
    return SharedFormula(f"{node}_{rule.args[0]}", ", ".join(parameters), lines, tuple(known))


def _types(plan: NodePlan) -> dict[str, str]:
    """How each variable that a function can take is passed."""
    found: dict[str, str] = {}
    for arg in plan.form.schema.args:
        if _is_passed(arg.type):
            found[arg.name] = spelling.argument_type(arg.type, False)
    for name, ret in zip(output_names(plan.op), plan.op.schema.returns, strict=True):
        if ret.type == TENSOR:
            found[name] = spelling.argument_type(TENSOR, False)
    return found


def _is_passed(type_: Type) -> bool:
    return type_ == TENSOR or (isinstance(type_, BaseType) and type_.name in _PASSED)


def _for_numbers(model: Model, plan: NodePlan, body: Sequence[Statement]) -> tuple[Statement, ...]:
    numbers = frozenset(plan.form.numbers)
    return tuple(map_expressions(body, lambda expr: with_numbers(expr, numbers, model)))


def _lines(model: Model, plan: NodePlan, body: Sequence[Statement]) -> tuple[str, ...]:
    writer = tensor_spelling.TensorSpelling(model, plan.op.schema.name.base, spelling.local)
    return tuple(value_lines(writer, body, TENSOR, "return ", ";"))
