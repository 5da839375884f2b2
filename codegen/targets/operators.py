"""Operator structs, dispatch tables, boxing, in aten/.

Structs are in <family>_ops_<n>.h, few in each, so that a file includes little besides those that it calls;
<family>_ops.h includes all of a family. Tables are in <family>_ops[_<n>].cpp and registry.cpp, boxing in
boxing_<n>.cpp.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from codegen.deriving import slots
from codegen.deriving.parts import header_of, in_file_order, parts
from codegen.model import Model, Operator
from codegen.writing import library_spelling
from codegen.writing.dispatcher_entries import EntryDecl
from codegen.writing.policies import policies
from codegen.writing.render import File, render

_BOXING_FILES = 6


def _boxing(signatures: Iterable[str], header: str, files: int) -> Iterator[File]:
    """Yield what converts between stacks and arguments. The text of a signature alone decides on its file."""
    groups: list[list[str]] = [[] for _ in range(files)]
    for signature in sorted(set(signatures)):
        groups[zlib.crc32(signature.encode()) % files].append(signature)
    for number, group in enumerate(groups):
        if group:
            yield render("boxing.cpp.j2", f"aten/boxing_{number}.cpp", header=header, signatures=tuple(group))


# The entries of each operator, by its name.
_Entries: TypeAlias = Mapping[str, Sequence[EntryDecl]]


def _headers(model: Model, family: str, operators: Sequence[Operator], entries: _Entries) -> Iterator[File]:
    """Yield the headers that declare the operators of a family."""
    included, *_ = library_spelling.runtime_headers(model, ("aten/dispatch/operator_entry.h",))
    headers: dict[str, list[EntryDecl]] = {}
    for op in in_file_order(operators):
        headers.setdefault(header_of(model, op), []).extend(entries[op.name])
    for name, declared in sorted(headers.items()):
        yield render(
            "ops.h.j2",
            f"aten/{name}.h",
            header=included,
            scope=library_spelling.scope(model),
            entries=tuple(declared),
        )
    if not model.library:
        yield render("family_ops.h.j2", f"aten/{family}_ops.h", headers=tuple(sorted(headers)))


# Operators whose tables are in one file: they compile in about half a second.
_LIMIT = 48


def _tables(
    model: Model, family: str, operators: Sequence[Operator], entries: _Entries
) -> Iterator[tuple[str, File]]:
    """Yield names and files of the dispatch tables of a family."""
    first, *_ = library_spelling.runtime_headers(model, ("aten/dispatch/signature.h",))
    headers = (first,) if model.library else ("aten/dispatch/family_table.h", first)
    for suffix, part in parts(model, operators, _LIMIT):
        # targets/library/ registers an author's operators.
        table = "" if model.library else f"{family}{suffix}_table"
        names = (form.name for _, form in slots.forms(part))
        file = render(
            "ops.cpp.j2",
            f"aten/{family}_ops{suffix}.cpp",
            headers=(*headers, *library_spelling.operator_headers(model, names)),
            scope=library_spelling.scope(model),
            entries=tuple(entry for op in part for entry in entries[op.name]),
            table=table,
            policies=policies(part) if table else (),
        )
        yield table, file


def emit(model: Model) -> Iterator[File]:
    """Yield headers and tables per family, the boxing of all signatures, and the list of all tables."""
    signatures: list[str] = []
    tables: list[str] = []
    for family, operators in slots.families(model):
        entries = {op.name: tuple(EntryDecl.of(model, op, form) for form in op.forms) for op in operators}
        signatures += [f"{e.returns} (*)({e.kernel_type})" for each in entries.values() for e in each]
        yield from _headers(model, family, operators, entries)
        for table, file in _tables(model, family, operators, entries):
            tables.append(table)
            yield file
    header, *_ = library_spelling.runtime_headers(model, ("aten/dispatch/boxing.h",))
    yield from _boxing(signatures, header, 1 if model.library else _BOXING_FILES)
    if not model.library:
        yield render("registry.cpp.j2", "aten/registry.cpp", tables=tuple(tables))
