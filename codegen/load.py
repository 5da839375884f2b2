"""Both YAML files -> Model, or every mistake in them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from codegen import keys
from codegen.autodiff import complete
from codegen.batch_rules import read_batching
from codegen.bodies import build_body, read_dtype
from codegen.checks import read_checks
from codegen.claims import check_claims
from codegen.consequences import Owners, without_consequences
from codegen.context import Context
from codegen.derivative_entries import (
    Entry,
    match_entries,
    needs_derivative,
    read_derivative,
    report_absent,
    report_missing,
    strangers,
)
from codegen.diagnostics import Collector, Diagnostic
from codegen.entries import Draft, check_families, derive_forms, read_entries
from codegen.kernel_scan import Sources, check_sources
from codegen.lets import report_unused
from codegen.model import (
    BatchRule,
    Body,
    Check,
    Derivative,
    DTypeRule,
    Model,
    Operator,
    Position,
    Primitive,
    TestSpec,
)
from codegen.partial import sound_operators
from codegen.primitives import load_primitives
from codegen.recursion import check_composites
from codegen.source import Loaded, Node, Text, load_entries
from codegen.source import Mapping as MapNode
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


@dataclass(slots=True)
class Read:
    """All that the two files say; the model is made of it."""

    found: list[Diagnostic]
    primitives: dict[str, Primitive]
    operators: tuple[Operator, ...] = ()  # those that are sound
    drafts: Sequence[Draft] = ()

    @property
    def forms(self) -> int:
        """How many forms the entries have."""
        return sum(len(draft.forms) for draft in self.drafts)


def load(
    native: Path = NATIVE,
    derivatives: Path = DERIVATIVES,
    root: Path | None = None,
    keep_going: bool = False,
) -> tuple[Model | None, list[Diagnostic]]:
    """Load and validate; the model is None when there is any mistake.

    `keep_going`: give a model of the operators without mistakes instead of none.
    """
    read = read_files(native, derivatives, root)
    if (read.found and not keep_going) or not read.drafts:
        return None, read.found
    return complete(Model(read.operators, read.primitives)), read.found


def read_files(native: Path = NATIVE, derivatives: Path = DERIVATIVES, root: Path | None = None) -> Read:
    """Read and validate both files.

    `root` holds aten/, whose kernels and rules are compared with what the entries declare; by
    default the folder of `native` if it has one, else the repository.
    """
    collector = Collector()
    primitives = load_primitives(collector)
    loaded = load_entries(native, shown_path(native), collector)
    if loaded.is_absent:
        if not collector.found:
            hint = "an operator is an entry that begins with '- func: '"
            collector.add(Position(shown_path(native), 1, 1), "FB0004", "no operators in the file", hint)
        return Read(collector.sorted(), primitives)
    drafts, faulty = _drafts(loaded, collector)
    context = Context.of(drafts, primitives, collector, Unusable.of((*loaded.unreadable, *faulty)))
    bodies = {d.name: None if d.broken else build_body(d, context) for d in drafts}
    dtypes = {d.name: read_dtype(d, context, bodies[d.name]) for d in drafts}
    check_claims({d.name: d for d in drafts}, bodies, dtypes, context)
    formulas = load_entries(derivatives, shown_path(derivatives), collector)
    entries = match_entries(formulas.entries, {d.name: d for d in drafts}, context)
    usable = [d for d in drafts if bodies[d.name] is not None]
    given = _derivatives(entries, usable, dtypes, context, formulas, {d.name for d in drafts})
    check_composites(drafts, bodies, context)
    check_sources(drafts, bodies, Sources(root or source_root(native)), context)
    operators = tuple(_operators(drafts, bodies, dtypes, given, context))
    for draft in drafts:
        report_unused(draft, context, bodies[draft.name])
    context.memory.keep()
    found = _mistakes(collector, loaded, formulas, drafts, entries)
    if collector.found:
        places = [(d.name, d.position) for d in drafts]
        places += [(name, entry.fields.node.position) for name, entry in entries.items()]
        operators = sound_operators(operators, collector.sorted(), places)
    return Read(found, primitives, operators, drafts)


def _mistakes(
    collector: Collector,
    loaded: Loaded,
    formulas: Loaded,
    drafts: Sequence[Draft],
    entries: Mapping[str, Entry],
) -> list[Diagnostic]:
    """Return what was found, without the consequences."""
    if not collector.found:
        return []
    native, derivatives = Owners(), Owners()
    called: dict[str, set[str]] = {}
    for draft in drafts:
        native.add(draft.position, draft.name)
        base = draft.schema.name.base
        called[draft.name] = {base, f"{base}_", *([draft.infix] if draft.infix else [])}
    for position in loaded.places:
        native.add(position, "")
    for name, entry in entries.items():
        derivatives.add(entry.fields.node.position, name)
    for position in formulas.places:
        derivatives.add(position, "")
    native.sort()
    derivatives.sort()
    names = {name: frozenset(calls) for name, calls in called.items()}
    return without_consequences(collector.found, native, derivatives, names)


def _drafts(loaded: Loaded, collector: Collector) -> tuple[list[Draft], list[str]]:
    """Read all entries; an operator that exists already is dropped.

    The second result is the text of entries that declare nothing because of their mistakes.
    """
    faulty: list[str] = []
    drafts: dict[str, Draft] = {}
    for node, draft in ((n, d) for n in loaded.entries for d in read_entries(n, collector)):
        if draft is None or draft.broken:
            faulty.append(_entry_text(node))
        if draft is None:
            continue
        first = drafts.setdefault(draft.name, draft)
        if first is not draft:
            hint = f"rename one of them; the first is in line {first.position.line}"
            message = f"duplicate operator '{draft.name}'"
            group = f"duplicate {draft.position.line}"
            collector.add(draft.func.at(0), "FB0107", message, hint, len(draft.name), group=group)
    check_families(tuple(drafts.values()), loaded.sections)
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
                group = f"forms {draft.name} {other.name}"
                collector.add(draft.func.at(0), "FB0209", message, hint, len(draft.name), group=group)


def _derivatives(
    entries: Mapping[str, Entry],
    drafts: Sequence[Draft],
    dtypes: Mapping[str, DTypeRule],
    context: Context,
    formulas: Loaded,
    names: Container[str],
) -> dict[str, Derivative]:
    """Read all derivative entries, and report operators that lack one."""
    unreadable = Unusable.of(text.replace("name:", "func:") for text in formulas.unreadable).operators
    found: dict[str, Derivative] = {}
    for name, entry in entries.items():
        if entry.draft.broken:
            continue
        derivative = read_derivative(entry, dtypes[name], context)
        if derivative is not None:
            found[name] = derivative
    needed = [
        draft
        for draft in drafts
        if not draft.broken
        and draft.name not in entries
        and draft.name not in unreadable
        and needs_derivative(draft, dtypes[draft.name])
    ]
    if formulas.is_absent:
        report_absent(needed, formulas.place, context)
    else:
        report_missing(needed, strangers(formulas.entries, names), context)
    return found


def _operators(
    drafts: Iterable[Draft],
    bodies: Mapping[str, Body | None],
    dtypes: Mapping[str, DTypeRule],
    given: Mapping[str, Derivative],
    context: Context,
) -> Iterator[Operator]:
    """Read what is left of each entry, and yield the operators that have a body."""
    for draft in drafts:
        test = read_test(draft, context)
        batching = () if draft.broken else read_batching(draft, context)
        checks = () if draft.broken else read_checks(draft, context)
        body = bodies[draft.name]
        if body is not None:
            derivative = given.get(draft.name)
            yield _operator(draft, body, dtypes[draft.name], derivative, test, batching, checks)


def _operator(
    draft: Draft,
    body: Body,
    dtype: DTypeRule,
    derivative: Derivative | None,
    test: TestSpec,
    batching: tuple[BatchRule, ...],
    checks: tuple[Check, ...],
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
        orders=draft.orders,
        batching=batching,
        checks=checks,
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
