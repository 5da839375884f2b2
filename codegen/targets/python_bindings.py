"""Python bindings: torchgen_out/python/<family>[_<n>].cpp and tables.cpp."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codegen.deriving.parts import divide
from codegen.deriving.signatures import Callable, Infix, functions, infixes, methods
from codegen.model import Model
from codegen.writing import library_spelling, python_spelling
from codegen.writing.number_protocol import SlotDecl, slot_decl
from codegen.writing.python_calls import signature_decl
from codegen.writing.render import File, render


@dataclass(frozen=True, slots=True)
class EntryDecl:
    """A name under which a function is called: its own or an alias, which overrides tell apart."""

    symbol: str
    name: str
    module: str  # the submodule of _C; "" for methods


@dataclass(frozen=True, slots=True)
class CallableDecl:
    """One function or method."""

    symbol: str
    entries: tuple[EntryDecl, ...]
    self: str
    count: int
    tables: tuple[str, ...]
    rows: tuple[str, ...]
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A row of a method table."""

    name: str
    symbol: str
    text: int  # the number of what `help()` shows


@dataclass(frozen=True, slots=True)
class NamespaceDecl:
    """A submodule of _C."""

    row: str
    table: str
    functions: tuple[TableEntry, ...]
    texts: str  # numbers


def _entry(namespace: str | None, name: str) -> EntryDecl:
    module = "" if namespace is None else f"_{namespace or 'functions'}"
    return EntryDecl(python_spelling.symbol_of(namespace, name), name, module)


def _entries(callable_: Callable) -> tuple[EntryDecl, ...]:
    aliases = (_entry(alias.namespace, alias.name) for alias in callable_.aliases)
    return (_entry(callable_.namespace, callable_.name), *aliases)


def _callable(callable_: Callable) -> CallableDecl:
    symbol = python_spelling.symbol_of(callable_.namespace, callable_.name)
    signatures = [signature_decl(callable_, s, i, symbol) for i, s in enumerate(callable_.signatures)]
    return CallableDecl(
        symbol=symbol,
        entries=_entries(callable_),
        self="self" if callable_.namespace is None else "nullptr",
        count=len(callable_.signatures),
        tables=tuple(line for s in signatures for line in s.tables),
        rows=tuple(s.row for s in signatures),
        calls=tuple(line for s in signatures for line in s.call),
    )


def _used(callables: Iterable[Callable], symbols: Iterable[Infix]) -> set[str]:
    """The forms of the operators that functions, methods and infix operators call."""
    found = {form.name for c in callables for s in c.signatures for form in s.op.forms}
    return found | {infix.both.name for infix in symbols}


_COMPARISONS = tuple(f"slot_{stem}" for stem in python_spelling.COMPARISON_ORDER)
_LIMIT = 48  # functions and methods in one file: together they compile in about a second


def emit(model: Model) -> Iterator[File]:
    """Yield files per family, and the tables."""
    found = (*functions(model), *methods(model))
    operators = [
        i for i in infixes(model) if not (i.inplace and python_spelling.is_comparison(i.symbol, i.arity))
    ]
    for family in sorted({c.family for c in found} | {i.family for i in operators}):
        called = ((c.name, 1, c) for c in found if c.family == family)
        infix = ((i.symbol, 1, i) for i in operators if i.family == family)
        for suffix, part in divide((*called, *infix), _LIMIT):
            own = [c for c in part if isinstance(c, Callable)]
            own_infix = [i for i in part if isinstance(i, Infix)]
            yield render(
                "python.cpp.j2",
                f"python/{family}{suffix}.cpp",
                headers=library_spelling.operator_headers(model, _used(own, own_infix)),
                callables=tuple(map(_callable, own)),
                slots=tuple(map(slot_decl, own_infix)),
            )
    yield _tables(found, [slot_decl(i) for i in operators])


def _tables(found: tuple[Callable, ...], number_slots: list[SlotDecl]) -> File:
    named = [
        (
            namespace,
            TableEntry(
                name,
                python_spelling.symbol_of(namespace, name),
                number,
            ),
        )
        for number, c in enumerate(found)
        for namespace, name in ((c.namespace, c.name), *((a.namespace, a.name) for a in c.aliases))
    ]
    names = sorted({namespace for namespace, _ in named if namespace is not None} | {""})
    known = {slot.symbol for slot in number_slots}
    return render(
        "python_tables.cpp.j2",
        "python/tables.cpp",
        callables=tuple(entry for _, entry in named),
        key=python_spelling.key_of_texts(found),
        texts=python_spelling.text_numbers(e.text for namespace, e in named if namespace is None),
        methods=tuple(entry for namespace, entry in named if namespace is None),
        namespaces=tuple(
            NamespaceDecl(
                f'{{"{name}", {name or "top"}_functions, {name or "top"}_functions_texts}}',
                f"{name or 'top'}_functions",
                tuple(e for namespace, e in named if namespace == name),
                python_spelling.text_numbers(e.text for namespace, e in named if namespace == name),
            )
            for name in names
        ),
        slots=tuple(number_slots),
        rows=tuple(
            f"{{{slot.id}, reinterpret_cast<void*>({slot.symbol})}}" for slot in number_slots if slot.id
        ),
        comparisons=", ".join(name if name in known else "nullptr" for name in _COMPARISONS),
    )
