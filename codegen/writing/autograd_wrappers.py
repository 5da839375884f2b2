"""Wrappers of dispatcher entries in C++ that record a call and run the kernel below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.deriving import slots
from codegen.deriving.saved import NodePlan, Saved, output_names
from codegen.language import schema as schema_text
from codegen.language import spelling
from codegen.model import Form, FormKind, Kind, Model
from codegen.writing import tensor_spelling
from codegen.writing.autograd_nodes import attribute_of, field_name, is_list, node_name
from codegen.writing.forward_mode import ForwardMode


@dataclass(frozen=True, slots=True)
class WrapperDecl:
    """All that the template prints about one wrapper."""

    name: str
    schema: str
    returns: str
    parameters: str
    lines: tuple[str, ...]
    attribute: str


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
        self.forward = ForwardMode(model, plan, form, self.written, node_name(plan))

    def decl(self) -> WrapperDecl:
        """Take every decision about the wrapper."""
        lines = self._out() if self.form.kind is FormKind.OUT else self._recorded()
        return WrapperDecl(
            name=f"{self.struct}_autograd",
            schema=schema_text.show_schema(self.form.schema),
            returns=spelling.return_type(self.form.schema.returns),
            parameters=spelling.parameters(self.form.schema),
            lines=tuple(lines),
            # An out= call comes here to be refused, or for a result without a gradient.
            attribute="[[gnu::cold]] " if self.form.kind is FormKind.OUT else attribute_of(self.plan.op),
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
        node = node_name(self.plan)
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
        yield f"{returns} result = [&] {{"
        yield "  const ExcludeKeys below(kAutogradKey);"
        yield f"  return {self._below()};"
        yield "}();"

    def _return(self, inplace: bool) -> Iterator[str]:
        returns = spelling.return_type(self.form.schema.returns)
        if returns == "void":
            return
        yield f"return {self.written[0]};" if inplace and self.written else "return result;"

    # --- recording -------------------------------------------------------------------------------

    def _edges_and_inputs(self) -> Iterator[str]:
        for arg in self.plan.edges:
            name = spelling.local(arg.name)
            is_number = arg.name in self.plan.form.numbers
            yield "node->add_edge({});" if is_number else f"node->add_next_edge({name});"
            if is_list(arg.type):
                yield f"node->count_of_{arg.name} = {name}.size();"
        for field in self.plan.saved:
            if field.kind in ("output", "outputs") or self._of_output(field):
                continue
            yield self._guarded(field, f"node->{field_name(field)}{self._value(field)};")

    def _of_output(self, field: Saved) -> bool:
        return field.kind == "property" and field.source in output_names(self.plan.op)

    def _value(self, field: Saved) -> str:
        """Return what follows the field's name where a wrapper fills it before the call."""
        name = spelling.local(field.source)
        if field.kind == "property":
            return f" = keep({tensor_spelling.PROPERTIES[field.property].format(name)})"
        if field.kind == "tensors":
            return f" = save_list({name})"
        if field.kind == "tensor":
            return f".save(operators::clone({name}))" if name in self.written else f".save({name})"
        return f" = keep({name})"

    def _guarded(self, field: Saved, line: str) -> str:
        """Save a tensor only if a gradient that reads it is wanted."""
        names = [a.name for a in self.plan.edges]
        users = self.plan.users(field)
        lists = any(is_list(a.type) for a in self.plan.args)
        if field.kind not in ("tensor", "output") or lists or {a.name for a in self.plan.args} <= set(users):
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
                elif is_list(ret.type):
                    yield f"set_history(TensorList({text}), node);"
                else:
                    yield f"set_history({text}, node);"

    def _save_outputs(self, inplace: bool) -> Iterator[str]:
        names = output_names(self.plan.op)
        for field in self.plan.saved:
            if field.kind not in ("output", "outputs") and not self._of_output(field):
                continue
            text = self._output(names.index(field.source), len(names))
            yield self._guarded(
                field, f"node->{field_name(field)}{self._saved_output(field, text, inplace)};"
            )

    def _output(self, index: int, count: int) -> str:
        if self.form.kind is FormKind.INPLACE and self.written:
            return self.written[0]
        return f"std::get<{index}>(result)" if count > 1 else "result"

    @staticmethod
    def _saved_output(field: Saved, text: str, inplace: bool) -> str:
        if field.kind == "property":
            return f" = keep({tensor_spelling.PROPERTIES[field.property].format(text)})"
        if field.kind == "outputs":
            return f" = save_list({text}, /*are_outputs=*/true)"
        more = f", is_view({text})" if inplace else ""
        return f".save({text}, /*is_output=*/true{more})"
