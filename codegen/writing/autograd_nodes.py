"""Nodes of the backward graph in C++: what each saves, and its apply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.deriving import slots
from codegen.deriving.saved import (
    NodePlan,
    Rule,
    Saved,
    asks_whether_defined,
    output_names,
    parts,
    shown_name,
)
from codegen.language import schema as schema_text
from codegen.language import spelling
from codegen.language.blocks import expressions
from codegen.language.overloads import TENSOR
from codegen.model import BaseType, ListType, Model, Operator, OptionalType, TupleType, Type, Var
from codegen.writing import tensor_spelling
from codegen.writing.block_spelling import value_lines
from codegen.writing.shared_formulas import SharedFormula, shared_formula


@dataclass(frozen=True, slots=True)
class NodeDecl:
    """All that the templates print about one node."""

    name: str
    label: str
    schema: str
    fields: tuple[str, ...]
    release: tuple[str, ...]  # release_saved, if anything is saved
    shown: tuple[str, ...]  # show_saved, if anything is saved
    formulas: tuple[SharedFormula, ...]
    lines: tuple[str, ...]  # of apply
    attribute: str  # of apply


def camel(name: str) -> str:
    """`add_Tensor` -> `AddTensor`, `relu_` -> `Relu_`."""
    inplace = name.endswith("_")
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "_" * inplace


def attribute_of(op: Operator) -> str:
    """Only second derivatives reach what fused derivatives record: the compiler makes it small."""
    return "[[gnu::cold]] " if op.internal else ""


def node_name(plan: NodePlan) -> str:
    """Return the name of the class of a node."""
    return f"{camel(spelling.struct_name(plan.form.name))}Backward"


def field_name(field: Saved) -> str:
    """Return the member of a node that holds a saved value."""
    return f"saved_{field.name}"


def is_list(type_: object) -> bool:
    """Whether an argument of this type has an edge per item."""
    return isinstance(type_, ListType)


class NodeWriter:
    """Writes one node's declaration and its apply."""

    def __init__(self, model: Model, plan: NodePlan) -> None:
        self.model = model
        self.plan = plan
        self.fields = {field.name: field for field in plan.saved}
        self.writer = tensor_spelling.TensorSpelling(model, plan.op.schema.name.base, self._name)
        derivative = plan.op.derivative
        unwanted = derivative.nondifferentiable_outputs if derivative is not None else ()
        outputs = zip(output_names(plan.op), plan.op.schema.returns, strict=True)
        self.outputs = [
            (i, name, ret.type)
            for i, (name, ret) in enumerate(outputs)
            if slots.is_tensor_like(ret.type) and name not in unwanted
        ]

    def decl(self, label: str) -> NodeDecl:
        """Take every decision about the node."""
        lists = [f"size_t count_of_{a.name} = 0;" for a in self.plan.args if is_list(a.type)]
        return NodeDecl(
            name=node_name(self.plan),
            label=label,
            schema=schema_text.show_schema(self.plan.form.schema),
            fields=(*(self._declaration(f) for f in self.plan.saved), *lists),
            release=tuple(self._release_all()),
            shown=tuple(self._show_all()),
            formulas=tuple(filter(None, map(self._shared, self.plan.rules))),
            lines=tuple(self._apply()),
            attribute=attribute_of(self.plan.op),
        )

    def _shared(self, rule: Rule) -> SharedFormula | None:
        return shared_formula(self.model, self.plan, rule, node_name(self.plan))

    def _name(self, name: str) -> str:
        """Spell a variable of a formula inside apply."""
        field = self.fields.get(name)
        if field is None or field.kind in ("tensor", "tensors", "output", "outputs"):
            return spelling.local(name)
        if field.kind == "value" and isinstance(field.type, OptionalType) and _needs_view(field.type):
            return f"view_of({field_name(field)})"
        return field_name(field)

    @staticmethod
    def _declaration(field: Saved) -> str:
        if field.kind in ("tensor", "output"):
            return f"SavedTensor {field_name(field)};"
        if field.kind in ("tensors", "outputs"):
            return f"std::vector<SavedTensor> {field_name(field)};"
        return f"{spelling.kept(field.type)} {field_name(field)}{{}};"

    @staticmethod
    def _release(field: Saved) -> str:
        if field.kind in ("tensor", "output"):
            return f"{field_name(field)}.reset();"
        return f"reset_list({field_name(field)});" if field.kind in ("tensors", "outputs") else ""

    def _release_all(self) -> Iterator[str]:
        lines = [line for field in self.plan.saved if (line := self._release(field))]
        if lines:
            yield "void release_saved() override {"
            yield from (f"  {line}" for line in lines)
            yield "}"

    def _show(self, field: Saved) -> str:
        text = field_name(field)
        if field.kind in ("value", "property"):
            is_number = field.source in self.plan.form.numbers and not field.property
            text = f"number_of({text})" if is_number else f"value_of({text})"
        return f"fields.show({spelling.quoted(shown_name(field))}, {text});"

    def _show_all(self) -> Iterator[str]:
        if self.plan.saved:
            yield "[[gnu::cold]] void show_saved(SavedFields& fields) override {"
            yield from (f"  {self._show(field)}" for field in self.plan.saved)
            yield "}"

    # --- apply -----------------------------------------------------------------------------------

    def _apply(self) -> Iterator[str]:
        counts = [f"count_of_{a.name}" for a in self.plan.edges if is_list(a.type)]
        fixed = len(self.plan.edges) - len(counts)
        yield f"Gradients gradients({' + '.join([str(fixed), *counts])});"
        if not self.plan.rules:
            yield "return gradients;"
            return
        yield from self._incoming()
        for rule in self.plan.rules:
            yield from self._rule(rule)
        yield "return gradients;"

    def _incoming(self) -> Iterator[str]:
        """Names for the gradients of the outputs."""
        exprs = [expr for rule in self.plan.rules for expr in expressions(rule.body)]
        read = {p.name for p in parts(*exprs) if isinstance(p, Var)}
        alone = len(self.outputs) == 1
        if alone and self.outputs[0][2] == TENSOR:
            index, name, _ = self.outputs[0]
            yield f"if (!grads[{index}].defined()) return gradients;"
            for variable in ("grad", f"grad_{name}"):
                if variable in read:
                    yield f"const Tensor& {variable} = grads[{index}];"
            return
        yield "if (!any_defined(grads)) return gradients;"
        for index, name, type_ in self.outputs:
            for variable in ("grad", f"grad_{name}") if alone else (f"grad_{name}",):
                if variable not in read:
                    continue
                if type_ != TENSOR:
                    yield f"const std::vector<Tensor> {variable} = grads_or_zeros(*this, grads);"
                elif any(asks_whether_defined(e, variable, self.model) for e in exprs):
                    yield f"const Tensor& {variable} = grads[{index}];"
                else:
                    yield f"const Tensor {variable} = grad_or_zeros(*this, grads, {index});"

    def _offset(self, name: str) -> str:
        """The index of an argument's first edge."""
        fixed, counts = 0, []
        for arg in self.plan.edges:
            if arg.name == name:
                break
            if is_list(arg.type):
                counts.append(f"count_of_{arg.name}")
            else:
                fixed += 1
        return " + ".join([str(fixed), *counts] if fixed or not counts else counts)

    def _wanted(self, name: str) -> str:
        arg = next((a for a in self.plan.args if a.name == name), None)
        if arg is None:
            return "false"
        if is_list(arg.type):
            return f"wants_any(*this, {self._offset(name)}, count_of_{name})"
        return f"should_compute({self._offset(name)})"

    def _unpack(self, rule: Rule) -> Iterator[str]:
        for field in rule.reads:
            local = spelling.local(field.name)
            if field.kind in ("tensor", "output"):
                yield f"  const Tensor {local} = {field_name(field)}.unpack(*this);"
            elif field.kind in ("tensors", "outputs"):
                yield f"  const std::vector<Tensor> {local} = unpack_list({field_name(field)}, *this);"

    def _rule(self, rule: Rule) -> Iterator[str]:
        yield f"if ({' || '.join(self._wanted(name) for name in rule.args)}) {{"
        if rule.missing:
            op = spelling.quoted(self.plan.op.schema.name.base)
            yield f"  refuse_gradient({op}, {spelling.quoted(rule.args[0])});"
        else:
            yield from self._unpack(rule)
            yield from self._assign(rule)
        yield "}"

    def _assign(self, rule: Rule) -> Iterator[str]:
        types = tuple(_gradient_type(self.plan.op, name) for name in rule.args)
        type_ = types[0] if len(types) == 1 else TupleType(types)

        def stored(begin: str) -> Iterator[str]:
            yield from value_lines(self.writer, rule.body, type_, begin, ";")

        if len(rule.args) > 1:
            if any(isinstance(p, Var) and p.name == "output_mask" for p in parts(*expressions(rule.body))):
                wanted = ", ".join(self._wanted(name) for name in rule.args)
                yield f"  const bool output_mask_values[] = {{{wanted}}};"
                yield "  const ArrayRef<bool> output_mask(output_mask_values);"
            yield from stored("  const auto computed = ")
            edges = {a.name for a in self.plan.args}
            for i, name in enumerate(rule.args):
                if name in edges:
                    item = f"gradients[{self._offset(name)}]"
                    yield f"  if ({self._wanted(name)}) {item} = std::get<{i}>(computed);"
            return
        name = rule.args[0]
        arg = next(a for a in self.plan.args if a.name == name)
        if not is_list(arg.type):
            begin, shared = f"  gradients[{self._offset(name)}] = ", self._shared(rule)
            yield from (f"{begin}{shared.call(self._name)};",) if shared else stored(begin)
            return
        yield from stored("  const auto computed = ")
        count, place = f"count_of_{name}", f"gradients[{self._offset(name)} + i]"
        expected = f'"expected a gradient for each of ", {count}, " tensors, got ", computed.size()'
        yield f"  check(computed.size() == {count}, {expected});"
        yield f"  for (size_t i = 0; i < {count}; ++i) {place} = computed[i];"


def _gradient_type(op: Operator, name: str) -> Type:
    """The type of the gradient of an argument: a Tensor, or a list of them."""
    type_ = next(arg.type for arg in op.schema.args if arg.name == name)
    return ListType(TENSOR) if is_list(type_) else TENSOR


def _needs_view(type_: OptionalType) -> bool:
    return isinstance(type_.elem, ListType) or type_.elem == BaseType("str")
