"""Scalar expressions as tensor-level ones: each primitive becomes the operator that does the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from codegen.deriving.symbolic import NOWHERE, NotDifferentiable, gradient, normal
from codegen.language.blocks import returning
from codegen.language.forms import derive
from codegen.language.overloads import SCALAR, TENSOR, default_value, returns_type, type_of
from codegen.model import (
    SCALAR_FUNCTION,
    Argument,
    BaseType,
    Call,
    Derivative,
    Doc,
    DTypeRule,
    Expr,
    Form,
    FormKind,
    Formula,
    Host,
    If,
    Kind,
    Literal,
    Number,
    Operator,
    OperatorName,
    OptionalType,
    Pointwise,
    Prim,
    Primitive,
    Prop,
    Return,
    Schema,
    TestSpec,
    Type,
    Var,
)

NO_TEST = TestSpec((), (), None, None, None, ())
_ALLOWED = ("floating", "complex")
_STR, _BOOL = BaseType("str"), BaseType("bool")


@dataclass(slots=True)
class Lowering:
    """Knows all operators; makes internal ones for primitives that no operator computes."""

    primitives: Mapping[str, Primitive]
    forms: dict[str, tuple[Operator, Form]]
    family: str = ""  # of the internal operators that are made now
    made: list[Operator] = field(default_factory=list)
    _of_primitive: dict[str, Operator] = field(default_factory=dict)

    def lower(self, expr: Expr, types: Mapping[str, Type]) -> Expr:
        """Return a tensor-level expression; `types` gives the schema types of the variables."""
        if isinstance(expr, Var):
            return Var(expr.name, types[expr.name], NOWHERE)
        if isinstance(expr, Number):
            return expr
        assert isinstance(expr, Prim)
        args = [self.lower(arg, types) for arg in expr.args]
        if expr.name == "conj" and type_of(args[0]) != TENSOR:
            return Host("conj", (args[0],), SCALAR, NOWHERE) if type_of(args[0]) == SCALAR else args[0]
        call = self._call(self._operator(expr.name), args)
        if expr.name == "conj" and isinstance(args[0], Var):
            is_complex = Prop(args[0], "is_complex", _BOOL, NOWHERE)
            return If(is_complex, call, args[0], TENSOR, NOWHERE)  # real numbers need no pass
        return call

    def _operator(self, primitive: str) -> Operator:
        row = self.primitives[primitive]
        if row.operator is not None and row.operator in self.forms:
            op, form = self.forms[row.operator]
            if form is op.forms[0]:
                return op
        if primitive not in self._of_primitive:
            self._make(row)
        return self._of_primitive[primitive]

    def _call(self, op: Operator, args: list[Expr]) -> Call:
        operands = [a.name for a in op.forms[0].schema.args if a.type == TENSOR][: len(args)]
        numbers = tuple(n for n, arg in zip(operands, args, strict=True) if type_of(arg) != TENSOR)
        form = self._form(op, numbers)
        if form is None:
            form = op.forms[0]
            args = [arg if type_of(arg) == TENSOR else as_tensor(arg) for arg in args]
        given = dict(zip(operands, args, strict=True))
        complete = tuple(
            given[a.name] if a.name in given else default_value(a, NOWHERE) for a in form.schema.args
        )
        return Call(form.name, complete, returns_type(form.schema), NOWHERE)

    @staticmethod
    def _form(op: Operator, numbers: tuple[str, ...]) -> Form | None:
        for form in op.forms:
            if form.kind is FormKind.FUNCTIONAL and set(form.numbers) == set(numbers):
                return form
        return None

    # --- internal operators ------------------------------------------------------------------------

    def _make(self, row: Primitive) -> None:
        """Add the operator of a primitive; its gradients call operators again."""
        names = [f"x{i}" for i in range(row.arity)]
        expr = Prim(row.name, tuple(Var(n, TENSOR, NOWHERE) for n in names), NOWHERE)
        rule = {"bool": "compare", "real": "real"}.get(row.result, "promote")
        schema = internal_schema(f"{SCALAR_FUNCTION}{row.name}", "", [(n, TENSOR) for n in names])
        allowed = tuple(d for d in _ALLOWED if d in row.domains)
        op = internal(
            schema, self.family, Pointwise(None, (("", expr),), tuple(names), ()), DTypeRule(rule, allowed)
        )
        self._of_primitive[row.name] = op
        derivative = None if rule == "compare" else self.derivative(op)
        self.made.append(with_derivative(op, derivative))

    def derivative(self, op: Operator) -> Derivative:
        """Return the gradients of an internal operator, computed by operators."""
        body = op.body
        assert isinstance(body, Pointwise)
        types: dict[str, Type] = {a.name: a.type for a in op.schema.args} | {"grad": TENSOR}
        is_complex = "complex" in op.dtype.allowed
        formulas: list[Formula] = []
        for name in body.operands:
            exprs: list[Expr] = []
            missing = False
            for _, expr in body.cases:
                try:
                    adjoint = gradient(expr, name, Var("grad", TENSOR, NOWHERE), self.primitives, is_complex)
                except NotDifferentiable:
                    missing = True
                    break
                exprs.append(self.lower(normal(adjoint), types))
            chosen = None if missing else choose_case(body, exprs, types)
            formulas.append(Formula((name,), returning(chosen), missing, "derived", None))
        return Derivative(tuple(formulas), ((op.schema.returns[0].name or "result", "elementwise"),), ())


def choose_case(body: Pointwise, exprs: list[Expr], types: Mapping[str, Type]) -> Expr | None:
    """Return the formula of the case that runs; None if no case has a gradient."""
    if all(isinstance(expr, Number) for expr in exprs):
        return None
    absent = Literal(None, OptionalType(TENSOR), NOWHERE)
    tensors = [absent if isinstance(expr, Number) else expr for expr in exprs]
    result = tensors[-1]
    if body.switch is not None:
        switch = Var(body.switch, types[body.switch], NOWHERE)
        for (case, _), expr in list(zip(body.cases, tensors, strict=True))[-2::-1]:
            is_case = Host("==", (switch, Literal(case, _STR, NOWHERE)), _BOOL, NOWHERE)
            result = If(is_case, expr, result, TENSOR, NOWHERE)
    return result


def as_tensor(expr: Expr) -> Expr:
    """Return a number as a 0-dim tensor that takes part in promotion by its category only."""
    return Host("tensor", (expr,), TENSOR, NOWHERE)


def internal_schema(base: str, overload: str, args: Sequence[tuple[str, Type]]) -> Schema:
    """Return the schema of an internal operator: every argument is required, one Tensor comes out."""
    arguments = tuple(Argument(name, type_, None, None, kwarg_only=False) for name, type_ in args)
    return Schema(OperatorName(base, overload, False), arguments, (Return(None, TENSOR, None),))


def internal(
    schema: Schema,
    family: str,
    body: Pointwise,
    dtype: DTypeRule,
    scalars: Sequence[tuple[str, ...]] = (),
) -> Operator:
    """Return a pointwise operator that only the generator knows."""
    return Operator(
        schema=schema,
        family=family,
        kind=Kind.POINTWISE,
        body=body,
        dtype=dtype,
        forms=tuple(derive(schema, ("function",), scalars)),
        derivative=None,
        namespace="",
        infix=None,
        doc=Doc(),
        test=NO_TEST,
        extra=(),
        internal=True,
        position=NOWHERE,
    )


def with_derivative(op: Operator, derivative: Derivative | None) -> Operator:
    """Return the operator with this derivative."""
    return replace(op, derivative=derivative)
