"""derivatives.yaml: gradients and forward rules, by operator name."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from codegen.language.forms import tensor_args
from codegen.language.overloads import TENSOR, has_tensor, plain, type_of
from codegen.language.tensor_expr import TensorParser, unknown
from codegen.model import (
    BaseType,
    Derivative,
    DTypeRule,
    ExprType,
    Formula,
    Kind,
    ListType,
    OptionalType,
    Position,
    Result,
    Statement,
    TupleType,
    Type,
)
from codegen.reading import keys
from codegen.reading.block_parser import is_body, parse_function
from codegen.reading.context import Context
from codegen.reading.entries import Draft
from codegen.reading.fields import Fields
from codegen.source.diagnostics import closest, did_you_mean
from codegen.source.nodes import Mapping as MapNode
from codegen.source.nodes import Node, Text
from codegen.source.nodes import Sequence as Items

_BOOLEAN_RULES = ("compare", "logical", "integral")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the file, with the operator that it names."""

    fields: Fields
    draft: Draft


def match_entries(nodes: Iterable[Node], drafts: Mapping[str, Draft], context: Context) -> dict[str, Entry]:
    """Pair each entry with its operator; report strangers and duplicates."""
    found: dict[str, Entry] = {}
    for node in nodes:
        if not isinstance(node, MapNode):
            hint = "write '- name: operator' and a formula for each argument below"
            context.collector.add(node.position, "FB0004", "expected an entry with keys", hint)
            continue
        fields = Fields(node, context.collector)
        name = fields.scalar("name")
        if name is None:
            hint = f"name: {keys.DERIVATIVE['name'].doc}"
            context.collector.add(node.position, "FB0102", "missing key 'name'", hint)
        elif name.value in found:
            line = found[name.value].fields.node.position.line
            message = f"duplicate derivative of '{name.value}'"
            hint = f"remove one; the first is in line {line}"
            context.collector.add(name.position, "FB0407", message, hint, name.length)
        elif name.value in drafts:
            found[name.value] = Entry(fields, drafts[name.value])
        elif name.value not in context.unusable.operators:
            _stranger(name, drafts, context)
    return found


def _stranger(name: Text, drafts: Mapping[str, Draft], context: Context) -> None:
    form = context.forms.find(name.value)
    message = f"derivative of an unknown operator '{name.value}'"
    hint = did_you_mean(name.value, drafts) or f"declare the operator in {_place(context)}"
    if form is not None:
        message = f"derivative of the derived form '{name.value}'"
        owner = next(d.name for d in drafts.values() if form in d.forms)
        hint = f"derived forms share the formulas of '{owner}': remove this entry"
    group, about = f"stranger {name.value}", [re.split(r"[._]*\.|_+$", name.value)[0]]
    context.collector.add(name.position, "FB0401", message, hint, name.length, about=about, group=group)


def _place(context: Context) -> str:
    return "the file of the extension" if context.library else "native_functions.yaml"


def read_derivative(entry: Entry, dtype: DTypeRule, context: Context) -> Derivative | None:
    """Read one entry's formulas and forward rules."""
    draft = entry.draft
    reader = _Reader(entry, context)
    if not _differentiable_outputs(draft) or _never_differentiable(draft, dtype):
        why = "its results are not Tensors" if not _differentiable_outputs(draft) else dtype.name
        message = f"superfluous derivative: {draft.name} is never differentiable ({why})"
        if any(reader.says_something(k, v) for k, v in entry.fields.node.items):
            at = entry.fields.key_position("name")
            context.collector.add(at, "FB0403", message, "remove the entry, or say `none`", 4)
            return None
    _check_override(reader, draft, context)
    reader.read()
    reader.check_complete(draft.kind is Kind.POINTWISE)
    node = entry.fields.text("node")
    return Derivative(tuple(reader.formulas), tuple(reader.forward), reader.nondifferentiable, node)


def _check_override(reader: _Reader, draft: Draft, context: Context) -> None:
    """A composite is differentiated through its parts: formulas beside that are deliberate, or a mistake."""
    given = next((k for k, v in reader.fields.node.items if k.value not in keys.DERIVATIVE), None)
    override = reader.fields.choice("override", ("true",))
    if draft.kind is Kind.COMPOSITE and given is not None and reader.fields.node.get("override") is None:
        message = f"superfluous derivative: {draft.name} is a composite, differentiated through its parts"
        hint = "remove the entry, or write `override: true` if the formulas are better than the parts'"
        context.collector.add(given.position, "FB0403", message, hint, given.length)
    elif override and draft.kind not in (Kind.COMPOSITE, Kind.POINTWISE):
        at = reader.fields.key_position("override")
        message = f"override of {draft.name}, whose derivative nothing else gives"
        context.collector.add(at, "FB0106", message, "remove the key", 8)


def output_names(draft: Draft) -> tuple[str, ...]:
    """Return how formulas call the outputs: their names, or result."""
    returns = draft.schema.returns
    if len(returns) == 1:
        return (returns[0].name or "result",)
    return tuple(r.name or f"result{i}" for i, r in enumerate(returns))


def differentiable_outputs(draft: Draft, fields: Fields) -> list[str]:
    """Return the outputs that have gradients, which formulas call `grad` where there is one."""
    node = fields.node.get("nondifferentiable")
    listed = [item.value for item in node.items if isinstance(item, Text)] if isinstance(node, Items) else []
    names = zip(output_names(draft), draft.schema.returns, strict=True)
    return [
        name
        for index, (name, result) in enumerate(names)
        if has_tensor(plain(result.type)) and name not in listed and str(index) not in listed
    ]


def _differentiable_outputs(draft: Draft) -> bool:
    return any(has_tensor(r.type) for r in draft.schema.returns)


def _never_differentiable(draft: Draft, dtype: DTypeRule) -> bool:
    if draft.kind not in (Kind.POINTWISE, Kind.REDUCE):
        return False
    return dtype.name in _BOOLEAN_RULES or not {"floating", "complex"} & set(dtype.allowed)


def needs_derivative(draft: Draft, dtype: DTypeRule) -> bool:
    """Whether silence is an error: Tensors in, Tensors out, and nothing derives the gradient."""
    if draft.kind in (Kind.POINTWISE, Kind.COMPOSITE) or _never_differentiable(draft, dtype):
        return False
    return bool(tensor_args(draft.schema)) and _differentiable_outputs(draft)


def strangers(nodes: Iterable[Node], known: Container[str]) -> list[Text]:
    """Return the names of entries that belong to no operator."""
    names = [node.get("name") for node in nodes if isinstance(node, MapNode)]
    return [name for name in names if isinstance(name, Text) and name.value not in known]


def report_missing(needed: Iterable[Draft], unclaimed: Sequence[Text], context: Context) -> None:
    """Report operators without an entry that need one; a renamed one has left its entry behind."""
    left = {text.value: text for text in unclaimed}
    for draft in needed:
        names = ", ".join(a.name for a in tensor_args(draft.schema))
        message = f"missing derivative of '{draft.name}'"
        where = "a file of derivatives, given beside this one," if context.library else "derivatives.yaml"
        hint = f"add '- name: {draft.name}' to {where} with {names}: formula, none or not_implemented"
        guess = closest(draft.name, left)
        group = "" if guess is None else f"stranger {guess}"
        if guess is not None:
            at = left.pop(guess).position
            hint = f"{at.file}:{at.line} differentiates '{guess}', which is not an operator: is it this one?"
        context.collector.add(draft.func.at(0), "FB0402", message, hint, len(draft.name), group=group)


def report_absent(needed: Sequence[Draft], place: Position, context: Context) -> None:
    """An empty file is one mistake; one that cannot be read has been reported."""
    if needed and not any(found.file == place.file for found in context.collector.found):
        message = f"no derivatives in the file, and {len(needed)} operators need one"
        hint = f"begin with '- name: {needed[0].name}'"
        context.collector.add(place, "FB0004", message, hint)


class _Reader:
    """Reads one entry: argument keys are formulas, output keys forward rules."""

    def __init__(self, entry: Entry, context: Context) -> None:
        self.fields = entry.fields
        self.draft = entry.draft
        self.context = context
        self.arguments = {a.name: a for a in self.draft.schema.args if not a.is_out}
        self.differentiable = {a.name: plain(a.type) for a in tensor_args(self.draft.schema)}
        self.outputs = {
            name: plain(r.type)
            for name, r in zip(output_names(self.draft), self.draft.schema.returns, strict=True)
        }
        self.nondifferentiable = self._nondifferentiable()
        self.formulas: list[Formula] = []
        self.forward: list[tuple[str, str | tuple[Statement, ...]]] = []
        self._covered: dict[str, Text] = {}

    def says_something(self, key: Text, value: Node) -> bool:
        """Whether a key is more than an explicit `none`."""
        return key.value not in keys.DERIVATIVE and not (isinstance(value, Text) and value.value == "none")

    def error(self, at: Text, code: str, message: str, hint: str) -> None:
        self.context.collector.add(at.position, code, message, hint, at.length)

    def _nondifferentiable(self) -> tuple[str, ...]:
        node = self.fields.node.get("nondifferentiable")
        names = list(self.outputs)
        found: list[str] = []
        items = node.items if isinstance(node, Items) else ()
        for item in items:
            index = item.value if isinstance(item, Text) else ""
            if isinstance(item, Text) and index.isdigit() and int(index) < len(names):
                found.append(names[int(index)])
            elif isinstance(item, Text) and index in names:
                found.append(index)
            else:
                message = f"nondifferentiable: '{index}' is not an output"
                hint = f"outputs: {', '.join(f'{i} ({n})' for i, n in enumerate(names))}"
                self.context.collector.add(item.position, "FB0405", message, hint)
        return tuple(found)

    def read(self) -> None:
        for key, value in self.fields.node.items:
            if key.value in keys.DERIVATIVE:
                continue
            if not isinstance(value, Text):
                hint = "write one expression"
                message = f"{key.value}: expected a formula"
                self.context.collector.add(value.position, "FB0103", message, hint)
                continue
            names = [part.strip() for part in key.value.split(",")]
            if names[0] in self.outputs and names[0] not in self.differentiable and len(names) == 1:
                self._forward(key, value)
            else:
                self._gradient(key, names, value)

    # --- reverse mode ------------------------------------------------------------------------

    def _gradient(self, key: Text, names: list[str], value: Text) -> None:
        if not all([self._check_name(key, name) for name in names]):
            return
        for name in names:
            if name in self._covered:
                message = f"second formula for '{name}'"
                line = self._covered[name].position.line
                self.error(key, "FB0407", message, f"remove one; the first is in line {line}")
            self._covered[name] = key
        if value.value in keys.NO_GRADIENT:
            missing = value.value == "not_implemented"
            self.formulas.append(Formula(tuple(names), (), missing, "given", value.position))
            return
        body = self._parse(names, value)
        if body is not None:
            self.formulas.append(Formula(tuple(names), body, False, "given", value.position))

    def _check_name(self, key: Text, name: str) -> bool:
        if name in self.differentiable:
            return True
        argument = self.arguments.get(name)
        if argument is not None:
            from codegen.language.schema import show_type

            message = f"derivative of the non-differentiable argument '{name}'"
            hint = f"'{name}' is a {show_type(argument.type)}: only Tensors have gradients, remove it"
            self.error(key, "FB0404", message, hint)
            return False
        wanted = [*self.differentiable, *self.outputs]
        hint = did_you_mean(name, wanted, "arguments and outputs")
        if name.startswith("result") or name in ("output", "out"):
            message = f"forward rule for a non-existent output '{name}'"
            self.error(key, "FB0405", message, f"outputs: {', '.join(self.outputs)}")
        else:
            message = f"'{name}' is neither an argument nor an output of {self.draft.name}"
            at, group = key.position, unknown(self.draft.name, name)
            self.context.collector.add(at, "FB0409", message, hint, key.length, group=group)
            self._stand_in(key, name)
        return False

    def _stand_in(self, key: Text, name: str) -> None:
        """A misspelt argument is not missing as well: it covers the closest one, or the only one."""
        rest = [n for n in self.differentiable if n not in self._covered]
        given = [part.strip() for k, _ in self.fields.node.items for part in k.value.split(",")]
        rest = [n for n in rest if n not in given]
        guess = closest(name, rest) or (rest[0] if len(rest) == 1 else None)
        if guess is not None:
            self._covered[guess] = key

    def variables(self) -> dict[str, ExprType]:
        """What a gradient formula may read."""
        found: dict[str, ExprType] = {n: plain(a.type) for n, a in self.arguments.items()}
        found |= self.outputs
        grads = [n for n in self.outputs if self._has_grad(n)]
        for name in grads:
            found[f"grad_{name}"] = self.outputs[name]
        if len(grads) == 1:
            found["grad"] = self.outputs[grads[0]]
        return found

    def _has_grad(self, output: str) -> bool:
        return has_tensor(self.outputs[output]) and output not in self.nondifferentiable

    def _parse(self, names: list[str], value: Text) -> tuple[Statement, ...] | None:
        variables = self.variables()
        wants: list[Type] = [_gradient_type(self.differentiable[name]) for name in names]
        what = f"the gradient of {self.draft.name} for {', '.join(names)}"
        if len(names) > 1:
            variables["output_mask"] = ListType(BaseType("bool"), len(names))
        scope = self.context.scope(variables, self.draft, what)
        if len(names) == 1 or is_body(value.value):
            want = wants[0] if len(names) == 1 else TupleType(tuple(wants))
            return parse_function(value, scope, self.context.collector, want)
        expr = TensorParser(scope, self.context.collector).parse(value)
        if expr is None:
            return None
        have = type_of(expr)
        if isinstance(have, TupleType) and len(have.items) == len(names):
            return (Result(expr),)
        count = len(have.items) if isinstance(have, TupleType) else 1
        message = f"{what}: expected {len(names)} gradients, got {count}"
        self.error(value, "FB0406", message, "yield a tuple with one gradient per argument")
        return None

    def check_complete(self, derivable: bool) -> None:
        """Each Tensor argument has a formula or says that it has none."""
        missing = [n for n in self.differentiable if n not in self._covered]
        if not missing or derivable or not self._has_outputs():
            return
        if self.draft.kind is Kind.COMPOSITE and not self.formulas:
            return
        at = self.fields.key_position("name")
        message = f"{self.draft.name}: missing derivative for {', '.join(repr(n) for n in missing)}"
        hint = f"add '{missing[0]}: formula', or say none or not_implemented"
        self.context.collector.add(at, "FB0402", message, hint, 4)

    def _has_outputs(self) -> bool:
        return any(self._has_grad(name) for name in self.outputs)

    # --- forward mode ------------------------------------------------------------------------

    def _forward(self, key: Text, value: Text) -> None:
        if not self._has_grad(key.value):
            message = f"forward rule for the output '{key.value}', which has no gradient"
            self.error(key, "FB0405", message, "remove it")
            return
        if value.value in keys.FORWARD_RULES:
            self.forward.append((key.value, value.value))
            return
        variables: dict[str, ExprType] = {n: plain(a.type) for n, a in self.arguments.items()}
        variables |= self.outputs
        for name, type_ in self.differentiable.items():
            variables[f"{name}_p"] = type_
            variables[f"{name}_t"] = type_
        what = f"the forward rule of {self.draft.name}"
        scope = self.context.scope(variables, self.draft, what)
        body = parse_function(value, scope, self.context.collector, self.outputs[key.value])
        if body is not None:
            self.forward.append((key.value, body))


def _gradient_type(type_: Type) -> Type:
    """A gradient has its argument's type; that of an optional Tensor is a Tensor or undefined."""
    if isinstance(type_, ListType):
        return ListType(OptionalType(TENSOR))
    return OptionalType(TENSOR)
