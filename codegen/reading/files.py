"""Both YAML files -> operators as they are written, and every mistake in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path

from codegen.language.unusable import Unusable
from codegen.model import Body, Kind, Operator, Position, Primitive
from codegen.reading import keys
from codegen.reading.claims import check_claims
from codegen.reading.consequences import Owners, without_consequences
from codegen.reading.context import Context
from codegen.reading.derivative_entries import (
    Entry,
    match_entries,
    needs_derivative,
    report_absent,
    report_missing,
    strangers,
)
from codegen.reading.documentation import check_documented, complete_docs
from codegen.reading.entries import Draft, check_families, derive_forms, read_entries
from codegen.reading.extension import (
    Author,
    Library,
    is_taken,
    read_library,
    refuse_foreign,
    refuse_hiding,
    refuse_taken,
)
from codegen.reading.flops import check_one_counter
from codegen.reading.kernel_scan import Sources
from codegen.reading.known import Known
from codegen.reading.primitives import load_primitives
from codegen.reading.reader import Reader, Reading
from codegen.reading.recursion import check_recursion
from codegen.reading.sound import sound_operators
from codegen.source.diagnostics import Collector, Diagnostic
from codegen.source.nodes import Loaded, Node, Text, load_entries, plain
from codegen.source.nodes import Mapping as MapNode

ROOT = Path(__file__).resolve().parents[2]
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
    library: Library | None = None  # an author's


def counts(declared: Sequence[Draft] | Sequence[Operator], primitives: Sized) -> str:
    """Return how large a specification is, without what the generator makes for itself."""
    forms = sum(len(operator.forms) for operator in declared)
    return f"{len(declared)} operators, {forms} forms, {len(primitives)} primitives"


def read_files(
    native: Path = NATIVE,
    derivatives: Path = DERIVATIVES,
    root: Path | None = None,
    known: Known | None = None,
    documented: bool = False,
    author: Author | None = None,
) -> Read:
    """Read and validate both files, and those of an `author` beside them.

    `root` holds aten/, whose kernels and rules are compared with what the entries declare; by
    default the folder of `native` if it has one, else the repository. Entries that are `known` to be
    sound are not read to the end, and have no operators in the answer. `documented`: report public
    operators whose documentation lacks something.
    """
    collector = Collector()
    primitives = load_primitives(collector)
    loaded = load_entries(native, shown_path(native), collector)
    if loaded.is_absent:
        _report_absent_operators(native, collector)
        return Read(collector.sorted(), primitives)
    library = None if author is None else read_library(author.native, shown_path(author.native), collector)
    if author is not None and (library is None or is_taken(library, loaded.sections, collector)):
        return Read(collector.sorted(), primitives)
    drafts, faulty, loaded = _drafts(loaded, library, collector)
    unusable = Unusable.of((*loaded.unreadable, *faulty))
    context = Context.of(drafts, primitives, collector, unusable, author, library)
    formulas = load_entries(derivatives, shown_path(derivatives), collector)
    if author is not None:
        formulas = _with_own(formulas, author, drafts, context)
    entries = match_entries(formulas.entries, {d.name: d for d in drafts}, context)
    reader = Reader(drafts, entries, _sources(native, root, library), context, known)
    readings = {draft.name: reader.read(draft) for draft in drafts}
    check_claims({d.name: d for d in drafts}, readings, context)
    _check_derivatives(drafts, readings, entries, formulas, context)
    check_recursion(drafts, {name: reading.calls for name, reading in readings.items()}, context)
    reader.check_strays()
    check_one_counter(drafts, collector)
    if documented:
        check_documented([draft for draft in drafts if context.is_own(draft)], collector)
    reader.keep()
    operators = tuple(_operators(drafts, readings))
    found = _mistakes(collector, loaded, formulas, drafts, entries)
    if collector.found:
        operators = sound_operators(operators, collector.sorted(), _places(drafts, entries))
    return Read(found, primitives, operators, drafts, library)


def _report_absent_operators(native: Path, collector: Collector) -> None:
    if not collector.found:
        hint = "an operator is an entry that begins with '- func: '"
        collector.add(Position(shown_path(native), 1, 1), "FB0004", "no operators in the file", hint)


def _places(drafts: Sequence[Draft], entries: Mapping[str, Entry]) -> Iterator[tuple[str, Position]]:
    """Yield which operator each entry of either file belongs to."""
    yield from ((draft.name, draft.position) for draft in drafts)
    yield from ((name, entry.fields.node.position) for name, entry in entries.items())


def _sources(native: Path, root: Path | None, library: Library | None) -> Sources:
    """Return the handwritten sources: an author's beside the rules that serve all families."""
    own = None if library is None else (library.name, library.sources)
    return Sources(root or source_root(native), own)


def _with_own(base: Loaded, author: Author, drafts: Sequence[Draft], context: Context) -> Loaded:
    """Add the derivatives of an author's file, in which mistakes are reported from now on."""
    taken = {draft.name for draft in drafts if not context.is_own(draft)}
    if author.derivatives is None:
        return replace(base, place=Position(shown_path(author.native), 1, 1))
    own = load_entries(author.derivatives, shown_path(author.derivatives), context.collector)
    kept = refuse_foreign(own.entries, taken, context.collector)
    return Loaded([*base.entries, *kept], own.unreadable, own.place, places=own.places)


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
        if not draft.is_derived:  # its mistakes are those of the entry that it was made from
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


def _drafts(
    loaded: Loaded, library: Library | None, collector: Collector
) -> tuple[list[Draft], list[str], Loaded]:
    """Read all entries; an operator that exists already is dropped.

    The second result is the text of entries that declare nothing because of their mistakes, the third the
    file that the author edits.
    """
    faulty: list[str] = []
    found = _read_drafts(loaded.entries, faulty, collector)
    if library is not None:
        taken = {draft.schema.name.base for draft in found}
        own = _read_drafts(library.loaded.entries, faulty, collector)
        refuse_hiding(own, collector)
        found += refuse_taken(own, taken, collector)
        loaded = library.loaded
    drafts: dict[str, Draft] = {}
    for draft in found:
        first = drafts.setdefault(draft.name, draft)
        if first is not draft:
            hint = f"rename one of them; the first is in line {first.position.line}"
            message = f"duplicate operator '{draft.name}'"
            group = f"duplicate {draft.position.line}"
            collector.add(draft.func.at(0), "FB0107", message, hint, len(draft.name), group=group)
    if library is None:
        check_families(tuple(drafts.values()), loaded.sections)
    derive_forms(drafts.values())
    complete_docs(drafts.values(), collector)
    _check_forms(drafts.values(), collector)
    _check_python_names([draft for draft in drafts.values() if not draft.broken], collector)
    return list(drafts.values()), faulty, loaded


def _read_drafts(nodes: Iterable[Node], faulty: list[str], collector: Collector) -> list[Draft]:
    """Read the entries of one file; the text of those that declare nothing goes to `faulty`."""
    drafts: list[Draft] = []
    for node in nodes:
        for draft in read_entries(node, collector):
            if draft is None or draft.broken:
                faulty.append(_entry_text(node))
            if draft is not None:
                drafts.append(draft)
    return drafts


def _entry_text(node: Node) -> str:
    """Return an entry's keys and plain values, as far as names stand in them."""
    if isinstance(node, MapNode):
        return "\n".join(f"{key.value}: {_entry_text(value)}" for key, value in node.items)
    if isinstance(node, Text):
        return node.value
    return ""


def _check_forms(drafts: Iterable[Draft], collector: Collector) -> None:
    """Two operators must not derive a form of one name, or of names that differ by case."""
    forms: dict[str, tuple[Draft, str]] = {}
    for draft in drafts:
        for form in draft.forms:
            other, name = forms.setdefault(form.name.lower(), (draft, form.name))
            if other is not draft:
                message = f"form '{form.name}' of '{draft.name}' is also a form of '{other.name}'"
                hint = f"change an overload name or the variants; see line {other.position.line}"
                if name != form.name:
                    message = f"form '{form.name}' of '{draft.name}' differs from '{name}' by case only"
                group = f"forms {draft.name} {other.name}"
                collector.add(draft.func.at(0), "FB0209", message, hint, len(draft.name), group=group)


def _check_python_names(drafts: Sequence[Draft], collector: Collector) -> None:
    """An alias must not hide an operator, and two overloads must not take the same arguments."""
    names = {(d.namespace, d.schema.name.base, d.schema.name.inplace): d for d in drafts}
    signatures: dict[object, Draft] = {}
    for draft in drafts:
        for text in draft.fields.texts("aliases"):
            namespace, _, name = text.value.rpartition(".")
            hidden = names.get((namespace, name, False))
            if hidden is not None:
                message = f"alias '{text.value}' is the name of an operator"
                hint = f"remove it; the operator is in line {hidden.position.line}"
                collector.add(text.position, "FB0107", message, hint, text.length)
        schema = draft.schema
        taken = tuple((arg.name, arg.type) for arg in schema.args)
        known = signatures.setdefault((draft.namespace, schema.name.base, schema.name.inplace, taken), draft)
        if known is not draft:
            message = f"'{draft.name}' takes the same arguments as '{known.name}', so that no call means it"
            hint = f"change an argument, or rename the operator; see line {known.position.line}"
            collector.add(draft.func.at(0), "FB0107", message, hint, len(draft.name))


def _check_derivatives(
    drafts: Sequence[Draft],
    readings: Mapping[str, Reading],
    entries: Mapping[str, Entry],
    formulas: Loaded,
    context: Context,
) -> None:
    """Report operators that lack a derivative."""
    unreadable = Unusable.of(text.replace("name:", "func:") for text in formulas.unreadable).operators
    needed = [
        draft
        for draft in drafts
        if readings[draft.name].has_body
        and draft.name not in entries
        and draft.name not in unreadable
        and needs_derivative(draft, readings[draft.name].dtype)
        and not (context.library and draft.kind is Kind.VIEW)  # reported as a whole
    ]
    if formulas.is_absent:
        report_absent(needed, formulas.place, context)
    else:
        report_missing(needed, strangers(formulas.entries, {d.name for d in drafts}), context)


def _operators(drafts: Iterable[Draft], readings: Mapping[str, Reading]) -> Iterator[Operator]:
    """Yield the operators that have a body."""
    for draft in drafts:
        reading = readings[draft.name]
        if reading.body is not None:
            yield _operator(draft, reading.body, reading)


def _operator(draft: Draft, body: Body, reading: Reading) -> Operator:
    extra = tuple((key, plain(draft.fields.node.get(key))) for key in keys.EXTRA)
    return Operator(
        schema=draft.schema,
        family=draft.family,
        kind=draft.kind,
        body=body,
        dtype=reading.dtype,
        forms=draft.forms,
        derivative=reading.derivative,
        namespace=draft.namespace,
        infix=draft.infix,
        doc=draft.doc,
        test=reading.test,
        extra=tuple((key, value) for key, value in extra if value is not None),
        internal=False,
        position=draft.position,
        tags=draft.tags,
        aliases=draft.aliases,
        orders=draft.orders,
        batching=reading.batching,
        checks=tuple(check for check in reading.checks if not check.of_out),
        out_checks=tuple(check for check in reading.checks if check.of_out),
        autocast=reading.autocast,
        sparse=reading.sparse,
        flops=reading.flops,
        element=reading.element,
        functional=_text(draft, "functional"),
        read_back=_text(draft, "read_back"),
    )


def _text(draft: Draft, key: str) -> str:
    given = draft.fields.scalar(key)
    return "" if given is None else given.value
