"""Both YAML files -> Model, or every mistake in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from codegen import keys
from codegen.autodiff import complete
from codegen.batch_rules import read_batching
from codegen.bodies import build_body, read_dtype
from codegen.checks import read_checks
from codegen.context import Context
from codegen.derivative_entries import (
    Entry,
    match_entries,
    needs_derivative,
    read_derivative,
    report_missing,
)
from codegen.diagnostics import Collector, Diagnostic
from codegen.entries import Draft, derive_forms, read_entries
from codegen.kernel_scan import Sources, check_sources
from codegen.lets import report_unused
from codegen.model import BatchRule, Body, Derivative, DTypeRule, Model, Operator, TestSpec
from codegen.partial import sound_operators
from codegen.primitives import load_primitives
from codegen.recursion import check_recursion
from codegen.source import Mapping as MapNode
from codegen.source import Node, Text, load_entries
from codegen.test_spec import read_test
from codegen.unusable import Unusable

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "native_functions.yaml"
DERIVATIVES = ROOT / "derivatives.yaml"


def shown_path(path: Path) -> str:
    """Return how messages call a file: relative to the repository, or as it was given."""
    full = path.resolve()
    return full.relative_to(ROOT).as_posix() if full.is_relative_to(ROOT) else str(path)


def source_root(native: Path) -> Path:
    """Return the folder whose aten/ belongs to a native_functions.yaml."""
    beside = native.resolve().parent
    return beside if (beside / "aten" / "ops").is_dir() else ROOT


def load(
    native: Path = NATIVE,
    derivatives: Path = DERIVATIVES,
    root: Path | None = None,
    keep_going: bool = False,
) -> tuple[Model | None, list[Diagnostic]]:
    """Load and validate; the model is None when there is any mistake.

    `root` holds aten/, whose kernels and rules are compared with what the entries declare; by
    default the folder of `native` if it has one, else the repository.
    `keep_going`: give a model of the operators without mistakes instead of none.
    """
    collector = Collector()
    primitives = load_primitives(collector)
    loaded = load_entries(native, shown_path(native), collector)
    drafts, faulty = _drafts(loaded.entries, collector)
    unusable = Unusable.of((*loaded.unreadable, *faulty))
    context = Context.of(drafts, primitives, collector, unusable)
    bodies = {d.name: None if d.broken else build_body(d, context) for d in drafts}
    dtypes = {d.name: read_dtype(d, context, bodies[d.name]) for d in drafts}
    tests = {d.name: read_test(d, context) for d in drafts}
    batching = {d.name: () if d.broken else read_batching(d, context) for d in drafts}
    checks = {d.name: () if d.broken else read_checks(d, context) for d in drafts}
    for draft in drafts:
        report_unused(draft, context)
    formulas = load_entries(derivatives, shown_path(derivatives), collector)
    missing = Unusable.of(text.replace("name:", "func:") for text in formulas.unreadable)
    entries = match_entries(formulas.entries, {d.name: d for d in drafts}, context)
    given = _derivatives(entries, drafts, dtypes, context, missing.operators)
    check_recursion(drafts, bodies, context)
    check_sources(drafts, bodies, Sources(root or source_root(native)), context)
    if len(collector) and not keep_going:
        return None, collector.sorted()
    operators = tuple(
        replace(
            _operator(d, body, dtypes[d.name], given.get(d.name), tests[d.name], batching[d.name]),
            checks=checks[d.name],
        )
        for d in drafts
        if (body := bodies[d.name]) is not None
    )
    if len(collector):
        places = [(d.name, d.position) for d in drafts]
        places += [(name, entry.fields.node.position) for name, entry in entries.items()]
        operators = sound_operators(operators, collector.sorted(), places)
    return complete(Model(operators, primitives)), collector.sorted()


def _drafts(nodes: Sequence[Node], collector: Collector) -> tuple[list[Draft], list[str]]:
    """Read all entries; an operator that exists already is dropped.

    The second result is the text of entries that declare nothing because of their mistakes.
    """
    faulty: list[str] = []
    drafts: dict[str, Draft] = {}
    for node, draft in ((n, d) for n in nodes for d in read_entries(n, collector)):
        if draft is None or draft.broken:
            faulty.append(_entry_text(node))
        if draft is None:
            continue
        first = drafts.setdefault(draft.name, draft)
        if first is not draft:
            hint = f"rename one of them; the first is in line {first.position.line}"
            message = f"duplicate operator '{draft.name}'"
            collector.add(draft.func.at(0), "FB0107", message, hint, len(draft.name))
    derive_forms(drafts.values())
    _check_forms(drafts.values(), collector)
    return list(drafts.values()), faulty


def _entry_text(node: Node) -> str:
    """Return an entry's keys and plain values, as far as names stand in them."""
    if isinstance(node, MapNode):
        return "\n".join(f"{key.value}: {_entry_text(value)}" for key, value in node.items)
    if isinstance(node, Text):
        return node.value
    return ""


def _check_forms(drafts: Iterable[Draft], collector: Collector) -> None:
    """Two operators must not derive a form of one name."""
    forms: dict[str, Draft] = {}
    for draft in drafts:
        for form in draft.forms:
            other = forms.setdefault(form.name, draft)
            if other is not draft:
                message = f"form '{form.name}' of '{draft.name}' is also a form of '{other.name}'"
                hint = f"change an overload name or the variants; see line {other.position.line}"
                collector.add(draft.func.at(0), "FB0209", message, hint, len(draft.name))


def _derivatives(
    entries: Mapping[str, Entry],
    drafts: Sequence[Draft],
    dtypes: Mapping[str, DTypeRule],
    context: Context,
    unreadable: frozenset[str],
) -> dict[str, Derivative]:
    """Read all derivative entries, and report operators that lack one."""
    found: dict[str, Derivative] = {}
    for name, entry in entries.items():
        if entry.draft.broken:
            continue
        derivative = read_derivative(entry, dtypes[name], context)
        if derivative is not None:
            found[name] = derivative
    for draft in drafts:
        if draft.name in entries or draft.name in unreadable:
            continue
        if not draft.broken and needs_derivative(draft, dtypes[draft.name]):
            report_missing(draft, context)
    return found


def _operator(
    draft: Draft,
    body: Body,
    dtype: DTypeRule,
    derivative: Derivative | None,
    test: TestSpec,
    batching: tuple[BatchRule, ...],
) -> Operator:
    extra = tuple((key, _plain_value(draft.fields.node.get(key))) for key in keys.EXTRA)
    return Operator(
        schema=draft.schema,
        family=draft.family,
        kind=draft.kind,
        body=body,
        dtype=dtype,
        forms=draft.forms,
        derivative=derivative,
        namespace=draft.namespace,
        infix=draft.infix,
        doc=draft.doc,
        test=test,
        extra=tuple((key, value) for key, value in extra if value is not None),
        internal=False,
        position=draft.position,
        tags=draft.tags,
        aliases=draft.aliases,
        batching=batching,
    )


def _plain_value(node: Node | None) -> object:
    """Return plain, hashable Python data of keys that are passed through."""
    if node is None:
        return None
    if isinstance(node, Text):
        return node.value
    if isinstance(node, MapNode):
        return tuple((key.value, _plain_value(value)) for key, value in node.items)
    return tuple(_plain_value(item) for item in node.items)
