"""Forward mode: the part of an autograd wrapper that computes the tangents of the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from codegen.deriving.saved import NodePlan, Rule, output_names, parts, with_numbers
from codegen.language import spelling
from codegen.language.blocks import expressions, map_expressions, returning, sole_value
from codegen.language.calls import body_calls
from codegen.language.overloads import TENSOR, has_tensor
from codegen.language.pyexpr import map_children
from codegen.model import (
    Argument,
    BaseType,
    Expr,
    Form,
    FormKind,
    ListType,
    Model,
    Pointwise,
    Prim,
    Statement,
    Type,
    Var,
)
from codegen.writing import tensor_spelling
from codegen.writing.block_spelling import value_lines
from codegen.writing.shared_formulas import shared_formula


class ForwardMode:
    """Statements before and after the kernel of one form. `called` names the forms that they call."""

    def __init__(self, model: Model, plan: NodePlan, form: Form, written: list[str], node: str) -> None:
        self.model = model
        self.node = node
        self.plan = plan
        self.form = form
        self.written = written
        self.called: set[str] = set()
        derivative = plan.op.derivative
        self.rules: Mapping[str, str | tuple[Statement, ...]] = (
            dict(derivative.forward) if derivative is not None else {}
        )
        self.tensors = [a for a in form.schema.args if has_tensor(a.type) and not a.is_out]
        self.base = spelling.quoted(plan.op.schema.name.base)

    @property
    def is_inplace(self) -> bool:
        """Whether the form writes to an argument."""
        return self.form.kind is FormKind.INPLACE and bool(self.written)

    def before(self) -> Iterator[str]:
        """Whether there are tangents, and copies of primals that the kernel overwrites."""
        if not self.plan.args or self.form.kind is FormKind.OUT:
            return
        asked = list(dict.fromkeys([*(spelling.local(a.name) for a in self.plan.args), *self.written]))
        yield f"const bool dual = has_forward_grad({', '.join(asked)});"
        if not self.is_inplace:
            return
        for name in sorted(self._primals()):
            if spelling.local(name) in self.written:
                local = spelling.local(name)
                yield f"Tensor {name}_p;"
                yield f"if (dual) {name}_p = operators::clone(primal_of({local}));"

    def after(self) -> Iterator[str]:
        """Set the tangents of the results."""
        if not self.plan.args or self.form.kind is FormKind.OUT:
            return
        # A cold function of its own: the compiler makes it small instead of quick.
        yield "if (dual) [[unlikely]] [&]() __attribute__((cold, noinline)) {"
        yield from (f"  {line}" for line in self._tangents())
        yield "}();"

    # --- rules -----------------------------------------------------------------------------------

    def _outputs(self) -> list[tuple[int, str]]:
        derivative = self.plan.op.derivative
        unwanted = derivative.nondifferentiable_outputs if derivative is not None else ()
        returns = zip(output_names(self.plan.op), self.plan.op.schema.returns, strict=True)
        return [(i, n) for i, (n, r) in enumerate(returns) if has_tensor(r.type) and n not in unwanted]

    def _tangents(self) -> Iterator[str]:
        outputs = self._outputs()
        if not outputs or any(name not in self.rules for _, name in outputs):
            yield f"refuse_forward_mode({self.base});"
            return
        for name in sorted(self._primals()):
            if not (self.is_inplace and spelling.local(name) in self.written):
                yield self._primal(name)
        for name in sorted(self._tangent_names()):
            yield f"const auto {name}_t = forward_grad_or_zeros({spelling.local(name)});"
        if any(self._reads_result(rule) for rule in self.rules.values()):
            yield from self._results()
        if any(self.rules[name] == "linear" for _, name in outputs):
            yield from self._linear(outputs)
            return
        for index, name in outputs:
            rule = self.rules[name]
            if rule == "elementwise":
                yield from self._elementwise(index)
            else:
                assert not isinstance(rule, str)
                type_ = self.plan.op.schema.returns[index].type
                single = sole_value(rule)
                if single is not None:
                    yield from self._set(index, self._text(single))
                    continue
                yield from self._lines(rule, type_, f"const auto tangent{index} = ", ";")
                yield from self._set(index, f"tangent{index}")

    def _target(self, index: int) -> str:
        if self.is_inplace:
            return self.written[0]
        return f"std::get<{index}>(result)" if len(self.plan.op.schema.returns) > 1 else "result"

    def _set(self, index: int, text: str) -> Iterator[str]:
        target = self._target(index)
        if isinstance(self.plan.op.schema.returns[index].type, ListType):
            yield f"set_forward_grad(TensorList({target}), {text});"
        else:
            yield f"set_forward_grad({target}, fitted_tangent({text}, {target}));"

    def _linear(self, outputs: list[tuple[int, str]]) -> Iterator[str]:
        """The operator itself, applied to tangents."""
        form = self.plan.form
        edges = {a.name for a in self.plan.args}
        values = [f"{a.name}_t" if a.name in edges else self._plain(a) for a in form.schema.args]
        call = f"ops::{spelling.struct_name(form.name)}::call({', '.join(values)})"
        self.called.add(form.name)
        if form.kind is FormKind.INPLACE:  # declared in-place: on a copy of the tangent
            first = next(a.name for a in form.schema.args if a.alias is not None and a.alias.is_write)
            yield f"Tensor copy = operators::clone({first}_t);"
            yield call.replace(f"{first}_t", "copy", 1) + ";"
            yield f"set_forward_grad({self.written[0]}, copy);"
            return
        if len(outputs) == 1:
            yield from self._set(outputs[0][0], call)
            return
        yield f"const auto tangents = {call};"
        for index, _ in outputs:
            yield from self._set(index, f"std::get<{index}>(tangents)")

    def _plain(self, arg: Argument) -> str:
        return f"{arg.name}_p" if has_tensor(arg.type) else spelling.local(arg.name)

    def _elementwise(self, index: int) -> Iterator[str]:
        """The sum of the gradient formulas, at tangents in place of the incoming gradient."""
        yield "Tensor total;"
        conjugate = self._conjugate()
        for rule in self.plan.rules:
            if not rule.body or len(rule.args) != 1:
                continue
            name = spelling.local(rule.args[0])
            yield f"if (const Tensor tangent = forward_grad({name}); tangent.defined()) {{"
            yield f"  const Tensor grad = {conjugate.format('tangent')};"
            yield from self._part(rule)
            yield f"  total = add_tangents(total, {conjugate.format('part')});"
            yield "}"
        yield from self._set(index, "total")

    def _part(self, rule: Rule) -> Iterator[str]:
        """The formula of one gradient, at a tangent."""
        shared = shared_formula(self.model, self.plan, rule, self.node)
        if shared is not None:
            yield f"  const Tensor part = {shared.call(self._primal_name)};"
            return
        yield from self._lines(self._formula(rule.args[0]), TENSOR, "  const Tensor part = ", ";")

    def _formula(self, name: str) -> tuple[Statement, ...]:
        derivative = self.plan.op.derivative
        assert derivative is not None
        return next(f.body for f in derivative.formulas if f.args == (name,))

    def _conjugate(self) -> str:
        """How a tensor is conjugated: not at all where numbers are real."""
        if "complex" not in self.plan.op.dtype.allowed or self.plan.op.dtype.name == "real":
            return "{0}"
        for op in self.model.operators:
            case = op.body.cases[0][1] if isinstance(op.body, Pointwise) else None
            if isinstance(case, Prim) and case.name == "conj":
                self.called.add(op.name)
                return f"({{0}}.is_complex() ? ops::{spelling.struct_name(op.name)}::call({{0}}) : {{0}})"
        return "{0}"

    # --- variables -------------------------------------------------------------------------------

    def _lines(self, body: Sequence[Statement], type_: Type, begin: str, end: str) -> Iterator[str]:
        """Spell a rule: tensors are primals, so that no tangent of a tangent is computed."""
        body = map_expressions(body, self._prepared)
        self.called |= body_calls(body)
        writer = tensor_spelling.TensorSpelling(self.model, self.plan.op.schema.name.base, self._name)
        yield from value_lines(writer, body, type_, begin, end)

    def _text(self, expr: Expr) -> str:
        return "".join(self._lines(returning(expr), TENSOR, "", ""))

    def _prepared(self, expr: Expr) -> Expr:
        return self._with_primals(with_numbers(expr, frozenset(self.form.numbers), self.model))

    def _name(self, name: str) -> str:
        outputs = output_names(self.plan.op)
        return f"{name}_value" if name in outputs else spelling.local(name)

    def _primal_name(self, name: str) -> str:
        is_tensor = any(a.name == name for a in self.tensors)
        return f"{name}_p" if is_tensor else self._name(name)

    def _with_primals(self, expr: Expr) -> Expr:
        names = {a.name for a in self.tensors}

        def visit(part: Expr) -> Expr:
            if isinstance(part, Var) and part.name in names:
                return Var(f"{part.name}_p", part.type, part.position)
            return map_children(part, visit)

        return visit(expr)

    def _exprs(self) -> list[Expr]:
        found = [rule for rule in self.rules.values() if not isinstance(rule, str)]
        if "elementwise" in self.rules.values():
            found += [rule.body for rule in self.plan.rules if len(rule.args) == 1]
            found += [self._formula(rule.args[0]) for rule in self.plan.rules if rule.body]
        return [expr for body in found for expr in expressions(body)]

    @cached_property
    def _variables(self) -> set[str]:
        return {part.name for part in parts(*self._exprs()) if isinstance(part, Var)}

    def _primals(self) -> set[str]:
        """Tensor arguments whose primal a rule reads."""
        read = self._variables
        found = {a.name for a in self.tensors if a.name in read or f"{a.name}_p" in read}
        if "linear" in self.rules.values():
            edges = {a.name for a in self.plan.args}
            found |= {a.name for a in self.tensors if a.name not in edges}
        return found

    def _tangent_names(self) -> set[str]:
        read = self._variables
        found = {a.name for a in self.tensors if f"{a.name}_t" in read}
        if "linear" in self.rules.values():
            found |= {a.name for a in self.plan.args}
        return found

    def _primal(self, name: str) -> str:
        local = spelling.local(name)
        arg = next(a for a in self.tensors if a.name == name)
        if isinstance(arg.type, ListType):
            return f"const std::vector<Tensor> {name}_p = primal_list({local});"
        if arg.type == TENSOR:
            return f"const Tensor {name}_p = primal_of({local});"
        return f"const Tensor {name}_p = {local}.defined() ? primal_of({local}) : Tensor();"

    def _reads_result(self, rule: str | tuple[Statement, ...]) -> bool:
        names = set(output_names(self.plan.op))
        if rule == "elementwise":
            return bool(names & self._variables)
        return not isinstance(rule, str) and bool(names & self._variables)

    def _results(self) -> Iterator[str]:
        for i, name in enumerate(output_names(self.plan.op)):
            if name in self._variables and self.plan.op.schema.returns[i].type == BaseType("Tensor"):
                target = self._target(i)
                yield f"const Tensor {name}_value = primal_of({target});"
