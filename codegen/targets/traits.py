"""The properties of each dispatcher entry that function transforms need: aten/<family>_traits.cpp."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codegen.deriving import batching, functional, slots
from codegen.language import spelling
from codegen.language.calls import body_calls
from codegen.model import BatchRule, Form, FormKind, Kind, Model, Operator
from codegen.model.enumerations import BatchMethod
from codegen.writing import library_spelling
from codegen.writing.body_spelling import FunctionDecl, batched_parts
from codegen.writing.render import File, render
from codegen.writing.trait_tables import TablePool, argument_row, place_spans, result_row


@dataclass(frozen=True, slots=True)
class TraitsDecl:
    """All that the template prints about one entry."""

    struct: str
    fields: str  # of OperatorTraits
    functions: tuple[FunctionDecl, ...]  # parts of rules
    externs: tuple[str, ...]  # declarations of parts that stand elsewhere

    @classmethod
    def of(cls, model: Model, op: Operator, form: Form, pool: TablePool) -> TraitsDecl:
        """Take every decision about one entry; its tables go into the pool."""
        rules = batching.rules(op, form)
        rows: list[str] = []
        functions: list[FunctionDecl] = []
        for index, rule in enumerate(rules):
            # Parts without a place need no table.
            places = ", ".join(place_spans(pool, rule, form, op)) if rule.places else "{}, {}"
            parts = "nullptr"
            if rule.body:
                functions.append(batched_parts(model, op, form, rule, index))
                parts = f"reinterpret_cast<void*>(&{functions[-1].name})"
            elif rule.method is BatchMethod.PARTS:
                parts = f"reinterpret_cast<void*>(&{_composite(op, form)})"
            rows.append(f"BatchMethod::{rule.method.value.capitalize()}, {places}, {parts}")
        results = (result_row(result, form) for result in form.schema.returns)
        spans = (
            pool.span("constexpr ArgumentTraits", "arguments", map(argument_row, form.schema.args)),
            pool.span("constexpr ResultTraits", "results", results),
            pool.span("const BatchRule", "rules", rows),
        )
        flags = ["true" if flag else "false" for flag in _flags(model, op, form)]
        functional_form = functional.functional_form(model, op, form)
        entries = (_tensor_form(op, form), functional_form, functional.inverse_form(model, op))
        return cls(
            struct=spelling.struct_name(form.name),
            fields=", ".join([*spans, *flags, *map(_entry, entries)]),
            functions=tuple(functions),
            externs=tuple(_externs(op, form, rules)),
        )


def _flags(model: Model, op: Operator, form: Form) -> tuple[bool, ...]:
    """The last fields of OperatorTraits, in their order."""
    composite = batching.is_composite(op, form)
    draws = batching.is_random(op) and not composite
    factory = batching.is_factory(op)
    passes_lazy = composite or factory or op.kind is Kind.VIEW or "lazy" in op.tags
    whole = functional.is_whole(model, op, form)
    effect = "effect" in op.tags
    return composite, draws, factory, batching.is_dynamic(op), passes_lazy, effect, whole


def _entry(form: Form | None) -> str:
    return "nullptr" if form is None else f"&ops::{spelling.struct_name(form.name)}::entry"


def _tensor_form(op: Operator, form: Form) -> Form | None:
    """The entry of the same form for tensors, where Python makes tensors of numbers."""
    if "numbers" not in op.tags or not form.numbers:
        return None
    return next(f for f in op.forms if f.kind is form.kind and not f.numbers)


def _composite(op: Operator, form: Form) -> str:
    return f"{spelling.struct_name(form.name)}_{slots.backends(op, form)['CPU']}"


def _externs(op: Operator, form: Form, rules: Iterable[BatchRule]) -> Iterator[str]:
    if any(rule.method is BatchMethod.PARTS and not rule.body for rule in rules):
        types = ", ".join(spelling.parameter(arg).rpartition(" ")[0] for arg in form.schema.args)
        returns = spelling.return_type(form.schema.returns)
        yield f"{returns} {_composite(op, form)}(DispatchKeySet{', ' * bool(types)}{types})"


def _called(operators: Iterable[Operator]) -> set[str]:
    """The forms that the parts of given rules call."""
    called: set[str] = set()
    for op in operators:
        called |= set().union(*(body_calls(r.body) for r in op.batching))
        if any(r.body and f.kind is not FormKind.FUNCTIONAL for f in op.forms for r in op.batching):
            called.add(op.name)
    return called


def _named(model: Model, operators: Iterable[Operator]) -> set[str]:
    """The forms of the entries that the tables point to."""
    pairs = [(op, form) for op in operators for form in op.forms]
    named = [functional.functional_form(model, op, form) for op, form in pairs]
    named += [functional.inverse_form(model, op) for op in operators]
    return {form.name for form in (*named, *(form for _, form in pairs)) if form is not None}


_OF_PARTS = (
    "aten/core/factory.h",
    "aten/core/host_expr.h",
    "aten/core/tensor_text.h",
    "aten/dispatch/assign.h",
    "aten/dispatch/become_view.h",
)


def _includes(model: Model, called: set[str], named: set[str]) -> Iterator[str]:
    headers = (*(_OF_PARTS if called else ()), "aten/dispatch/operator_traits.h")
    yield from library_spelling.runtime_headers(model, headers)
    yield from library_spelling.operator_headers(model, called | named)


def emit(model: Model) -> Iterator[File]:
    """Yield one table per family."""
    for family, operators in slots.families(model):
        pool = TablePool()
        entries = tuple(TraitsDecl.of(model, op, form, pool) for op, form in slots.forms(operators))
        yield render(
            "traits.cpp.j2",
            f"aten/{family}_traits.cpp",
            includes=tuple(_includes(model, _called(operators), _named(model, operators))),
            scope=library_spelling.scope(model),
            externs=tuple(line for entry in entries for line in entry.externs),
            functions=tuple(function for entry in entries for function in entry.functions),
            tables=pool.tables(),
            entries=entries,
        )
