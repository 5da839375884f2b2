"""Autograd: nodes and wrappers, torchgen_out/autograd/<family>.h and .cpp.

A node holds what the formulas of one operator read; a wrapper records the call and runs the kernel
below. Gradients come out in the shape that the formula gives: the engine fits each to its argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codegen.deriving import slots
from codegen.deriving.saved import (
    NodePlan,
    Rule,
    Saved,
    asks_whether_defined,
    called_forms,
    output_names,
    parts,
    plan_node,
)
from codegen.language import schema as schema_text
from codegen.language import spelling
from codegen.language.overloads import TENSOR
from codegen.model import BaseType, Form, FormKind, Kind, ListType, Model, Operator, OptionalType
from codegen.writing import tensor_spelling
from codegen.writing.forward_mode import ForwardMode
from codegen.writing.render import File, render


@dataclass(frozen=True, slots=True)
class NodeDecl:
    """All that the templates print about one node."""

    name: str
    shown: str
    schema: str
    fields: tuple[str, ...]
    release: tuple[str, ...]  # release_saved, if anything is saved
    lines: tuple[str, ...]  # of apply


@dataclass(frozen=True, slots=True)
class WrapperDecl:
    """All that the template prints about one wrapper."""

    name: str
    schema: str
    returns: str
    parameters: str
    lines: tuple[str, ...]


# --- names ---------------------------------------------------------------------------------------


def _camel(name: str) -> str:
    inplace = name.endswith("_")
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "_" * inplace


def _node_name(plan: NodePlan) -> str:
    return f"{_camel(spelling.struct_name(plan.form.name))}Backward"


def _field(field: Saved) -> str:
    return f"saved_{field.name}"


def _is_list(type_: object) -> bool:
    return isinstance(type_, ListType)


# --- nodes ---------------------------------------------------------------------------------------


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

    def decl(self, shown: str) -> NodeDecl:
        """Take every decision about the node."""
        lists = [f"size_t count_of_{a.name} = 0;" for a in self.plan.args if _is_list(a.type)]
        return NodeDecl(
            name=_node_name(self.plan),
            shown=shown,
            schema=schema_text.show_schema(self.plan.form.schema),
            fields=(*(self._declaration(f) for f in self.plan.saved), *lists),
            release=tuple(self._release_all()),
            lines=tuple(self._apply()),
        )

    def _name(self, name: str) -> str:
        """Spell a variable of a formula inside apply."""
        field = self.fields.get(name)
        if field is None or field.kind in ("tensor", "tensors", "output", "outputs"):
            return spelling.local(name)
        if field.kind == "value" and isinstance(field.type, OptionalType) and _needs_view(field.type):
            return f"view_of({_field(field)})"
        return _field(field)

    @staticmethod
    def _declaration(field: Saved) -> str:
        if field.kind in ("tensor", "output"):
            return f"SavedTensor {_field(field)};"
        if field.kind in ("tensors", "outputs"):
            return f"std::vector<SavedTensor> {_field(field)};"
        return f"{spelling.kept(field.type)} {_field(field)}{{}};"

    @staticmethod
    def _release(field: Saved) -> str:
        if field.kind in ("tensor", "output"):
            return f"{_field(field)}.reset();"
        return f"reset_list({_field(field)});" if field.kind in ("tensors", "outputs") else ""

    def _release_all(self) -> Iterator[str]:
        lines = [line for field in self.plan.saved if (line := self._release(field))]
        if lines:
            yield "void release_saved() override {"
            yield from (f"  {line}" for line in lines)
            yield "}"

    # --- apply -----------------------------------------------------------------------------------

    def _apply(self) -> Iterator[str]:
        counts = [f"count_of_{a.name}" for a in self.plan.args if _is_list(a.type)]
        fixed = len(self.plan.args) - len(counts)
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
        exprs = [rule.expr for rule in self.plan.rules if rule.expr is not None]
        read = {p.name for e in exprs for p in parts(e) if hasattr(p, "name") and not hasattr(p, "of")}
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
        for arg in self.plan.args:
            if arg.name == name:
                break
            if _is_list(arg.type):
                counts.append(f"count_of_{arg.name}")
            else:
                fixed += 1
        return " + ".join([str(fixed), *counts] if fixed or not counts else counts)

    def _wanted(self, name: str) -> str:
        arg = next((a for a in self.plan.args if a.name == name), None)
        if arg is None:
            return "false"
        if _is_list(arg.type):
            return f"wants_any(*this, {self._offset(name)}, count_of_{name})"
        return f"should_compute({self._offset(name)})"

    def _unpack(self, rule: Rule) -> Iterator[str]:
        for field in rule.reads:
            local = spelling.local(field.name)
            if field.kind in ("tensor", "output"):
                yield f"  const Tensor {local} = {_field(field)}.unpack(*this);"
            elif field.kind in ("tensors", "outputs"):
                yield f"  const std::vector<Tensor> {local} = unpack_list({_field(field)}, *this);"

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
        assert rule.expr is not None
        text = self.writer.write(rule.expr)
        if len(rule.args) > 1:
            if any(getattr(p, "name", "") == "output_mask" for p in parts(rule.expr)):
                wanted = ", ".join(self._wanted(name) for name in rule.args)
                yield f"  const bool output_mask_values[] = {{{wanted}}};"
                yield "  const ArrayRef<bool> output_mask(output_mask_values);"
            yield f"  const auto computed = {text};"
            edges = {a.name for a in self.plan.args}
            for i, name in enumerate(rule.args):
                if name in edges:
                    item = f"gradients[{self._offset(name)}]"
                    yield f"  if ({self._wanted(name)}) {item} = std::get<{i}>(computed);"
            return
        name = rule.args[0]
        arg = next(a for a in self.plan.args if a.name == name)
        if not _is_list(arg.type):
            yield f"  gradients[{self._offset(name)}] = {text};"
            return
        yield f"  const auto computed = {text};"
        count, place = f"count_of_{name}", f"gradients[{self._offset(name)} + i]"
        expected = f'"expected a gradient for each of ", {count}, " tensors, got ", computed.size()'
        yield f"  check(computed.size() == {count}, {expected});"
        yield f"  for (size_t i = 0; i < {count}; ++i) {place} = computed[i];"


def _needs_view(type_: OptionalType) -> bool:
    return isinstance(type_.elem, ListType) or type_.elem == BaseType("str")


# --- wrappers ------------------------------------------------------------------------------------


class WrapperWriter:
    """Writes the wrapper of one form."""

    def __init__(self, model: Model, plan: NodePlan, form: Form) -> None:
        self.model = model
        self.plan = plan
        self.form = form
        self.struct = spelling.struct_name(form.name)
        written = [a for a in form.schema.args if a.alias is not None and a.alias.is_write]
        self.written = [spelling.local(a.name) for a in written]
        self.edges = [spelling.local(a.name) for a in plan.args]
        self.forward = ForwardMode(model, plan, form, self.written)

    def decl(self) -> WrapperDecl:
        """Take every decision about the wrapper."""
        lines = self._out() if self.form.kind is FormKind.OUT else self._recorded()
        return WrapperDecl(
            name=f"{self.struct}_autograd",
            schema=schema_text.show_schema(self.form.schema),
            returns=spelling.return_type(self.form.schema.returns),
            parameters=spelling.parameters(self.form.schema),
            lines=tuple(lines),
        )

    def _below(self) -> str:
        names = ", ".join(["keys.below(DispatchKey::Autograd)", spelling.argument_names(self.form.schema)])
        return f"ops::{self.struct}::redispatch({names})"

    def _out(self) -> Iterator[str]:
        # Results that have no gradient, as those of argmax, may be written whatever the arguments are.
        given = [spelling.local(a.name) for a in self.form.schema.args if slots.is_tensor_like(a.type)]
        recorded = self.plan.rules or self.plan.op.kind is Kind.COMPOSITE
        tensors = given if recorded else self.written
        op = spelling.quoted(self.form.schema.name.base)
        yield f"if (any_requires_grad({', '.join(tensors)})) refuse_out({op});"
        yield "const ExcludeKeys below(kAutogradKey);"
        yield f"return {self._below()};"

    def _recorded(self) -> Iterator[str]:
        inplace = self.form.kind is FormKind.INPLACE
        edges = ", ".join(self.edges)
        recorded = f"any_requires_grad({edges})" if self.edges else "false"
        if inplace and self.written:
            yield f"const bool records = any_requires_grad({', '.join(self._asked())});"
            yield from (f"check_inplace_grad({name}, records);" for name in self.written)
            recorded = "records"
        node = _node_name(self.plan)
        yield f"intrusive_ptr<{node}> node;"
        yield f"if ({recorded}) {{"
        yield f"  node = make_node<{node}>();"
        yield from (f"  {line}" for line in self._edges_and_inputs())
        yield "}"
        yield from self.forward.before()
        yield from self._run(inplace)
        yield "if (node) {"
        yield from (f"  {line}" for line in self._history(inplace))
        yield "}"
        yield from self.forward.after()
        # Outputs are saved with their tangents, which forward-over-reverse reads.
        if saved := list(self._save_outputs(inplace)):
            yield "if (node) {"
            yield from (f"  {line}" for line in saved)
            yield "}"
        yield from self._return(inplace)

    def _asked(self) -> list[str]:
        """What decides whether an in-place call is recorded: written tensors count, differentiable or not."""
        return list(dict.fromkeys([*self.written, *self.edges]))

    def _run(self, inplace: bool) -> Iterator[str]:
        returns = spelling.return_type(self.form.schema.returns)
        if inplace or returns == "void":
            yield "{"
            yield "  const ExcludeKeys below(kAutogradKey);"
            yield f"  {self._below()};"
            yield "}"
            return
        yield f"{returns} result;"
        yield "{"
        yield "  const ExcludeKeys below(kAutogradKey);"
        yield f"  result = {self._below()};"
        yield "}"

    def _return(self, inplace: bool) -> Iterator[str]:
        returns = spelling.return_type(self.form.schema.returns)
        if returns == "void":
            return
        yield f"return {self.written[0]};" if inplace and self.written else "return result;"

    # --- recording -------------------------------------------------------------------------------

    def _edges_and_inputs(self) -> Iterator[str]:
        for arg in self.plan.args:
            name = spelling.local(arg.name)
            yield f"node->add_next_edge({name});"
            if _is_list(arg.type):
                yield f"node->count_of_{arg.name} = {name}.size();"
        for field in self.plan.saved:
            if field.kind in ("output", "outputs") or self._of_output(field):
                continue
            yield self._guarded(field, f"node->{_field(field)} = {self._value(field)};")

    def _of_output(self, field: Saved) -> bool:
        return field.kind == "property" and field.source in output_names(self.plan.op)

    def _value(self, field: Saved) -> str:
        name = spelling.local(field.source)
        if field.kind == "property":
            return f"keep({tensor_spelling.PROPERTIES[field.property].format(name)})"
        if field.kind == "tensors":
            return f"save_list({name})"
        if field.kind == "tensor":
            overwritten = name in self.written
            return f"SavedTensor(operators::clone({name}))" if overwritten else f"SavedTensor({name})"
        return f"keep({name})"

    def _guarded(self, field: Saved, line: str) -> str:
        """Save a tensor only if a gradient that reads it is wanted."""
        names = [a.name for a in self.plan.args]
        users = self.plan.users(field)
        lists = any(_is_list(a.type) for a in self.plan.args)
        if field.kind not in ("tensor", "output") or lists or set(names) <= set(users):
            return line
        wanted = " || ".join(f"node->should_compute({names.index(name)})" for name in names if name in users)
        return f"if ({wanted}) {line}"

    def _history(self, inplace: bool) -> Iterator[str]:
        outputs = list(zip(output_names(self.plan.op), self.plan.op.schema.returns, strict=True))
        derivative = self.plan.op.derivative
        unwanted = derivative.nondifferentiable_outputs if derivative is not None else ()
        if inplace and self.written:
            yield from (f"rebase_history({name}, node);" for name in self.written)
        else:
            for i, (name, ret) in enumerate(outputs):
                if not slots.is_tensor_like(ret.type):
                    continue
                text = self._output(i, len(outputs))
                if name in unwanted:
                    yield "node->add_undefined_output();"
                elif _is_list(ret.type):
                    yield f"set_history(TensorList({text}), node);"
                else:
                    yield f"set_history({text}, node);"

    def _save_outputs(self, inplace: bool) -> Iterator[str]:
        names = output_names(self.plan.op)
        for field in self.plan.saved:
            if field.kind not in ("output", "outputs") and not self._of_output(field):
                continue
            text = self._output(names.index(field.source), len(names))
            yield self._guarded(field, f"node->{_field(field)} = {self._saved_output(field, text, inplace)};")

    def _output(self, index: int, count: int) -> str:
        if self.form.kind is FormKind.INPLACE and self.written:
            return self.written[0]
        return f"std::get<{index}>(result)" if count > 1 else "result"

    @staticmethod
    def _saved_output(field: Saved, text: str, inplace: bool) -> str:
        if field.kind == "property":
            return f"keep({tensor_spelling.PROPERTIES[field.property].format(text)})"
        if field.kind == "outputs":
            return f"save_list({text}, /*are_outputs=*/true)"
        more = f", is_view({text})" if inplace else ""
        return f"SavedTensor({text}, /*is_output=*/true{more})"


# --- files ---------------------------------------------------------------------------------------


def _plans(
    model: Model, operators: Iterable[Operator]
) -> Iterator[tuple[Operator, list[tuple[NodePlan, list[Form]]]]]:
    """Group the wrapped forms of each operator by the node that they make."""
    for op in operators:
        groups: dict[tuple[str, ...], tuple[NodePlan, list[Form]]] = {}
        for form in op.forms:
            if not slots.is_wrapped(op, form):
                continue
            if form.numbers not in groups:
                groups[form.numbers] = (plan_node(model, op, slots.functional_form(op, form)), [])
            groups[form.numbers][1].append(form)
        if groups:
            yield op, list(groups.values())


def _families(
    model: Model, family: str, plans: Iterable[NodePlan], forward: Iterable[str]
) -> tuple[str, ...]:
    names = set(forward)
    for plan in plans:
        for rule in plan.rules:
            if rule.expr is not None:
                names |= called_forms(rule.expr)
    return tuple(sorted({model.form(name)[0].family for name in names} | {family}))


def emit(model: Model) -> Iterator[File]:
    """Yield a header and a source per family."""
    counts: dict[str, int] = {}
    for family, operators in slots.families(model):
        nodes: list[NodeDecl] = []
        wrappers: list[WrapperDecl] = []
        plans: list[NodePlan] = []
        forward: set[str] = set()
        for op, groups in _plans(model, operators):
            base = _camel(op.schema.name.base)
            recorded = [plan for plan, forms in groups if any(f.kind is not FormKind.OUT for f in forms)]
            counts[base] = counts.get(base, -1) + bool(recorded)
            given = op.derivative.node if op.derivative is not None else None
            shown = given or f"{base}Backward{counts[base]}"
            nodes.extend(NodeWriter(model, plan).decl(shown) for plan in recorded)
            plans.extend(recorded)
            for plan, forms in groups:
                for form in forms:
                    writer = WrapperWriter(model, plan, form)
                    wrappers.append(writer.decl())
                    forward |= writer.forward.called
        if not wrappers:
            continue
        families = _families(model, family, plans, forward)
        yield render("autograd.h.j2", f"autograd/{family}.h", nodes=tuple(nodes))
        yield render(
            "autograd.cpp.j2",
            f"autograd/{family}.cpp",
            family=family,
            families=families,
            nodes=tuple(nodes),
            wrappers=tuple(wrappers),
        )
