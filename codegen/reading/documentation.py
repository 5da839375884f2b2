"""`doc:` of the entries: what each says, what it inherits, and what a public one lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Protocol

from codegen.language.schema import show_type
from codegen.model import Argument, BaseType, Doc, ListType, OptionalType, Position, Schema, Type
from codegen.reading import keys
from codegen.reading.fields import Fields, check_keys
from codegen.source.diagnostics import Collector, did_you_mean
from codegen.source.nodes import Mapping as MapNode
from codegen.source.nodes import Text, load_entries

GLOSSARY = Path(__file__).parents[1] / "glossary.yaml"


class Documented(Protocol):
    """What this module needs of an entry."""

    fields: Fields
    func: Text
    schema: Schema
    namespace: str
    doc: Doc

    def argument_position(self, name: str) -> Position:
        """Where the schema names an argument."""
        ...

    @property
    def is_internal(self) -> bool:
        """Whether users never see the operator."""

    @property
    def is_derived(self) -> bool:
        """Whether the generator made the entry from another one."""


def read_doc(fields: Fields) -> Doc:
    """Return what an entry itself says: a text, whose first line is the summary, or a mapping."""
    node = fields.node.get("doc")
    if isinstance(node, Text):
        return _plain(node, fields.collector)
    if not isinstance(node, MapNode):
        return Doc()
    own = Fields(node, fields.collector)
    check_keys(own, keys.DOC)
    for key, value in node.items:
        if isinstance(value, Text) and not value.value.strip():
            hint = keys.DOC[key.value].doc if key.value in keys.DOC else "remove it"
            fields.collector.add(value.position, "FB0103", f"doc: '{key.value}' is empty", hint)
    arguments = node.get("args")
    described = tuple(
        (key.value, value.value)
        for key, value in (arguments.items if isinstance(arguments, MapNode) else ())
        if isinstance(value, Text)
    )
    return Doc(
        summary=_text(own, "summary"),
        arguments=described,
        returns=_text(own, "returns"),
        shapes=_text(own, "shapes"),
        dtypes=_text(own, "dtypes"),
        formula=_text(own, "formula"),
        gradient=_text(own, "gradient"),
        raises=_list(own, "raises"),
        notes=_list(own, "notes"),
        source=_list(own, "source"),
        see=_list(own, "see"),
        example=_text(own, "example"),
    )


def _plain(text: Text, collector: Collector) -> Doc:
    summary, _, rest = text.value.strip().partition("\n")
    if not summary:
        hint = "begin with one line that says what the operator computes"
        collector.add(text.position, "FB0103", "doc is empty", hint)
    return Doc(summary=summary, notes=(rest,) if rest else ())


def _text(fields: Fields, key: str) -> str:
    return (fields.text(key) or "").strip()


def _list(fields: Fields, key: str) -> tuple[str, ...]:
    text = fields.text(key)
    return (text,) if text is not None else tuple(item.value for item in fields.texts(key))


# --- what an entry inherits ------------------------------------------------------------------------


def complete_docs(drafts: Iterable[Documented], collector: Collector) -> None:
    """Give each entry what it inherits: from the first documented entry of its name, and the glossary."""
    groups: dict[tuple[str, str], list[Documented]] = {}
    for draft in drafts:
        groups.setdefault((draft.namespace, draft.schema.name.base), []).append(draft)
    for group in groups.values():
        base = _base(group)
        known = {name for draft in group for name in _names(draft.schema)}
        for draft in group:
            _check_names(draft, known, collector)
            if base is None or (base is not draft and draft.fields.node.get("doc") is None):
                _report_missing(draft, base, collector)
        general = base.doc if base is not None else Doc()
        for draft in group:
            draft.doc = _inherited(draft, general)


def _base(group: Sequence[Documented]) -> Documented | None:
    """Return the entry that the others of a name inherit from: the first with an example, else a summary."""
    documented = [draft for draft in group if draft.doc.summary]
    return next((d for d in documented if d.doc.example), documented[0] if documented else None)


def _names(schema: Schema) -> tuple[str, ...]:
    return tuple(arg.name for arg in schema.args)


def _check_names(draft: Documented, known: set[str], collector: Collector) -> None:
    """`args:` describes arguments of the operator, of any of its overloads."""
    doc = draft.fields.node.get("doc")
    described = doc.get("args") if isinstance(doc, MapNode) else None
    for key, _ in described.items if isinstance(described, MapNode) else ():
        if key.value not in known:
            message = f"doc: '{key.value}' is not an argument of '{draft.schema.name.base}'"
            hint = did_you_mean(key.value, sorted(known), "arguments")
            collector.add(key.position, "FB0305", message, hint, key.length)


def _report_missing(draft: Documented, base: Documented | None, collector: Collector) -> None:
    if base is None and draft.fields.node.get("doc") is None:
        message = "missing key 'doc'"
        collector.add(draft.fields.node.position, "FB0102", message, f"doc: {keys.ENTRY['doc'].doc}")


def _inherited(draft: Documented, general: Doc) -> Doc:
    doc = draft.doc
    own = dict(doc.arguments)
    if not doc.summary:
        doc = replace(general, arguments=doc.arguments)
    elif not doc.example:
        doc = replace(
            doc, example=general.example, see=doc.see or general.see, source=doc.source or general.source
        )
    shared = dict(general.arguments)
    described = [
        (arg.name, own.get(arg.name) or shared.get(arg.name) or glossed(arg, glossary()))
        for arg in draft.schema.args
    ]
    return replace(doc, arguments=tuple((name, text) for name, text in described if text))


# --- the glossary ----------------------------------------------------------------------------------


@cache
def glossary() -> Mapping[str, Mapping[str, str]]:
    """Return name -> type -> text of arguments that mean the same everywhere; "" stands for any type."""
    collector = Collector()
    found: dict[str, dict[str, str]] = {}
    for row in load_entries(GLOSSARY, GLOSSARY.name, collector).entries:
        fields = Fields(row, collector) if isinstance(row, MapNode) else None
        if fields is not None:
            check_keys(fields, keys.GLOSSARY)
            for type_ in [text.value for text in fields.texts("types")] or [""]:
                found.setdefault(fields.text("name") or "", {})[type_] = fields.text("text") or ""
    if collector.found:
        raise ValueError(f"{GLOSSARY.name}: {collector.found[0].message}")
    return found


def glossed(arg: Argument, texts: Mapping[str, Mapping[str, str]]) -> str:
    """Return the glossary's text for an argument."""
    by_type = texts.get(arg.name, {})
    return by_type.get(_kind(arg.type)) or by_type.get("", "")


def _kind(type_: Type) -> str:
    """Return a type without what a description does not depend on: sizes, options, kinds of int."""
    if isinstance(type_, OptionalType):
        return _kind(type_.elem)
    if isinstance(type_, ListType):
        return f"{_kind(type_.elem)}[]"
    return "int" if type_ == BaseType("SymInt") else show_type(type_)


# --- what is missing -------------------------------------------------------------------------------


def check_documented(drafts: Iterable[Documented], collector: Collector) -> None:
    """Report public operators without a summary or an example, and arguments that nobody describes."""
    documented: dict[tuple[str, str], Doc] = {}
    public = [draft for draft in drafts if not draft.is_internal and not draft.is_derived]
    for draft in public:
        key = (draft.namespace, draft.schema.name.base)
        if draft.doc.example or key not in documented:
            documented[key] = draft.doc
    reported: set[tuple[str, str]] = set()
    for draft in public:
        key = (draft.namespace, draft.schema.name.base)
        if not documented[key].example and key not in reported:
            reported.add(key)
            message = f"'{draft.schema.name.base}' has no example"
            hint = "write doc: {summary: ..., example: ...}; docs/spec-language.md shows one"
            collector.add(draft.func.at(0), "FB0114", message, hint, len(draft.schema.name.base))
        described = {name for name, _ in draft.doc.arguments}
        for arg in draft.schema.args:
            if arg.name not in described:
                message = f"argument '{arg.name}' of '{draft.schema.name}' is not described"
                hint = f"describe it in doc: args:, or in {GLOSSARY.name} if it means the same everywhere"
                collector.add(draft.argument_position(arg.name), "FB0114", message, hint, len(arg.name))
