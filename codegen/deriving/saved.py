"""What a backward node keeps: the values that its formulas read, after rewriting them for one form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

from codegen.deriving.lowering import as_tensor
from codegen.language.blocks import expressions, map_expressions
from codegen.language.overloads import SCALAR, TENSOR, has_tensor, is_tensor, returns_type
from codegen.language.pyexpr import children, map_children
from codegen.model import (
    Argument,
    Call,
    Expr,
    ExprType,
    Form,
    FormKind,
    Formula,
    Literal,
    Model,
    Number,
    Operator,
    OptionalType,
    Prop,
    Return,
    Statement,
    Type,
    Var,
)


def output_names(op: Operator) -> tuple[str, ...]:
    """Return how formulas call the outputs."""
    returns = op.schema.returns
    if len(returns) == 1:
        return (returns[0].name or "result",)
    return tuple(r.name or f"result{i}" for i, r in enumerate(returns))


def parts(*exprs: Expr) -> Iterator[Expr]:
    """Yield the expressions and everything inside."""
    waiting = [*reversed(exprs)]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(reversed(children(part)))


# --- number overloads ----------------------------------------------------------------------------


def with_numbers(expr: Expr, numbers: frozenset[str], model: Model) -> Expr:
    """Rewrite a formula for a form in which some Tensor arguments are numbers."""
    if not numbers:
        return expr

    def is_given(part: Expr) -> TypeGuard[Var]:
        return isinstance(part, Var) and part.name in numbers

    def visit(part: Expr) -> Expr:
        if is_given(part):
            return as_tensor(replace(part, type=SCALAR))
        if isinstance(part, Call) and any(map(is_given, part.args)):
            return _number_call(part, is_given, visit, model)
        return map_children(part, visit)

    return visit(expr)


def _number_call(
    call: Call, is_given: Callable[[Expr], TypeGuard[Var]], visit: Callable[[Expr], Expr], model: Model
) -> Expr:
    """A call of the overload that takes the numbers, if there is one."""
    op, form = model.form(call.form)
    pairs = list(zip(form.schema.args, call.args, strict=True))
    wanted = {a.name for a, part in pairs if is_given(part) and is_tensor(a.type)} | set(form.numbers)
    for candidate in op.forms:
        if candidate.kind is FormKind.FUNCTIONAL and set(candidate.numbers) == wanted:
            args = tuple(replace(p, type=SCALAR) if is_given(p) else visit(p) for _, p in pairs)
            return Call(candidate.name, args, returns_type(candidate.schema), call.position)
    result = map_children(call, visit)
    assert isinstance(result, Call)
    return result


# --- saved values --------------------------------------------------------------------------------

# How PyTorch calls properties of arguments among the saved values of a node.
_SHOWN = {
    "shape": "sym_sizes",
    "strides": "sym_strides",
    "numel": "sym_numel",
    "storage_offset": "sym_storage_offset",
    "ndim": "dim",
    "dtype": "scalar_type",
}


@dataclass(frozen=True, slots=True)
class Saved:
    """One field of a node. kind: tensor, tensors, output, value, or property (of an argument or output)."""

    name: str  # how formulas call it
    kind: str
    type: ExprType
    source: str  # the argument or output
    property: str = ""


def shown_name(field: Saved) -> str:
    """Return the name that users see: node._saved_<name>."""
    return f"{field.source}_{_SHOWN.get(field.property, field.property)}" if field.property else field.name


@dataclass(frozen=True, slots=True)
class Rule:
    """One formula of one node, ready to be written."""

    args: tuple[str, ...]
    body: tuple[Statement, ...]
    reads: tuple[Saved, ...]
    missing: bool  # not_implemented


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The plan of the node of one operator, for one choice of number arguments."""

    op: Operator
    form: Form  # the functional (or declared) form with these numbers
    args: tuple[Argument, ...]  # differentiable, in schema order: they get edges
    rules: tuple[Rule, ...]

    @property
    def edges(self) -> tuple[Argument, ...]:
        """`args`, and numbers where the operator takes a tensor: their edges are empty."""
        derivative = self.op.derivative
        formulas = derivative.formulas if derivative is not None else ()
        numbers = {name for f in formulas for name in f.args if f.body} & set(self.form.numbers)
        names = {a.name for a in self.args} | (numbers if self.args else set())
        return tuple(a for a in self.form.schema.args if a.name in names)

    @property
    def saved(self) -> tuple[Saved, ...]:
        """Every field once, in order of first use."""
        return tuple(dict.fromkeys(field for rule in self.rules for field in rule.reads))

    def users(self, field: Saved) -> list[str]:
        """The arguments whose gradients read a field."""
        return [arg for rule in self.rules if field in rule.reads for arg in rule.args]


def plan_node(model: Model, op: Operator, form: Form) -> NodePlan:
    """Rewrite an operator's formulas for a form, and find what they read."""
    numbers = frozenset(form.numbers)
    formulas = op.derivative.formulas if op.derivative is not None else ()
    wanted = [f for f in formulas if f.body or f.not_implemented]
    rules = tuple(rule for f in wanted if (rule := _rule(model, op, form, f, numbers)).args)
    names = {name for rule in rules for name in rule.args}
    args = tuple(a for a in form.schema.args if a.name in names)
    return NodePlan(op, form, args, rules)


def _rule(model: Model, op: Operator, form: Form, formula: Formula, numbers: frozenset[str]) -> Rule:
    args = tuple(name for name in formula.args if name not in numbers or len(formula.args) > 1)
    if not formula.body:
        return Rule(args, (), (), True)
    types: dict[str, Type] = {a.name: a.type for a in form.schema.args}
    outputs = dict(zip(output_names(op), op.schema.returns, strict=True))
    fields: dict[str, Saved] = {}
    body = map_expressions(
        formula.body,
        lambda expr: _with_properties(with_numbers(expr, numbers, model), types, outputs, fields),
    )
    for part in parts(*expressions(body)):
        if not isinstance(part, Var) or part.name in fields:
            continue
        if part.name in types:
            fields[part.name] = Saved(part.name, _kind(types[part.name]), types[part.name], part.name)
        elif part.name in outputs:
            kind = "output" if outputs[part.name].type == TENSOR else "outputs"
            fields[part.name] = Saved(part.name, kind, outputs[part.name].type, part.name)
    return Rule(args, body, tuple(fields.values()), False)


def _kind(type_: Type) -> str:
    if is_tensor(type_):
        return "tensor"
    return "tensors" if has_tensor(type_) else "value"


def _with_properties(
    expr: Expr, types: Mapping[str, Type], outputs: Mapping[str, Return], fields: dict[str, Saved]
) -> Expr:
    """Read saved shapes and dtypes where a formula asks a tensor for nothing else."""

    def visit(part: Expr) -> Expr:
        if isinstance(part, Prop) and isinstance(part.of, Var):
            source = part.of.name
            known = source in outputs or (source in types and types[source] == TENSOR)
            known = known or (part.name == "defined" and source in types)  # None has no shape
            if known:
                name = f"{part.name}_of_{source}"
                fields[name] = Saved(name, "property", part.type, source, part.name)
                return Var(name, part.type, part.position)
        return map_children(part, visit)

    return visit(expr)


# --- gradients that formulas read ---------------------------------------------------------------


def asks_whether_defined(expr: Expr, name: str, model: Model) -> bool:
    """Whether a formula copes with an undefined gradient itself."""
    for part in parts(expr):
        if isinstance(part, Prop) and part.name == "defined" and part.of == Var(name, TENSOR, part.position):
            return True
        if isinstance(part, Call):
            parameters = model.form(part.form)[1].schema.args
            for parameter, arg in zip(parameters, part.args, strict=True):
                optional = isinstance(parameter.type, OptionalType)
                if optional and isinstance(arg, Var) and arg.name == name:
                    return True
    return False


def is_trivial(expr: Expr) -> bool:
    """Whether evaluating costs nothing."""
    return isinstance(expr, Var | Number | Literal)
