"""Where an operator or family lives: every file and line that belongs to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from codegen.language.calls import dependencies
from codegen.model import Kernels, Model, Operator, View
from codegen.reading.extension import Author, read_library
from codegen.reading.files import DERIVATIVES, shown_path
from codegen.reading.kernel_scan import Sources
from codegen.source.diagnostics import Collector
from codegen.source.nodes import SourceFile
from codegen.writing.output import ROOT, walk


@dataclass(frozen=True, slots=True)
class Place:
    """One place, with what it is."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def select(model: Model, name: str) -> list[Operator]:
    """Return the operators called `name`: a form, an operator with all its overloads, or a family."""
    exact = [op for op in model.operators if any(form.name == name for form in op.forms)]
    by_base = [op for op in model.operators if name in (op.schema.name.base, str(op.schema.name))]
    found = {op.name: op for op in (*exact, *by_base)}
    if not found:
        found = {op.name: op for op in model.operators if op.family == name}
    return list(found.values())


def parts_of(operators: Iterable[Operator], model: Model) -> list[Operator]:
    """Return what some operators are made of: internal operators with entries, and all that have kernels."""
    pending = list(operators)
    chosen = {op.name for op in pending}
    found: dict[str, Operator] = {}
    while pending:
        for form in sorted(dependencies(pending.pop())):
            part = model.form(form)[0]
            if not part.internal and part.name not in chosen:
                chosen.add(part.name)
                pending.append(part)
                if part.schema.name.base.startswith("_") or isinstance(part.body, Kernels):
                    found[part.name] = part
    return list(found.values())


def of_operators(
    operators: Iterable[Operator], parts: Iterable[Operator], author: Author | None = None
) -> Iterator[Place]:
    """Yield the places of some operators and of their parts: YAML, kernels, tests, docs, outputs.

    Operators of an author have their places in the author's files.
    """
    chosen = list(operators)
    library = None if author is None else read_library(author.native, "", Collector())
    for op in (*chosen, *parts):
        is_own = library is not None and op.family == library.name
        derivatives = author.derivatives if author is not None and is_own else DERIVATIVES
        own = (library.name, library.sources) if library is not None and is_own else None
        yield Place(op.position.file, op.position.line, f"{op.name}: entry")
        if derivatives is not None:
            yield from _derivative(op, derivatives)
        yield from _definitions(op, Sources(ROOT, own))
    if library is not None:
        chosen = [op for op in chosen if op.family != library.name]
    for family in sorted({op.family for op in chosen}):
        yield from _family_files(family)
    yield from _mentions(chosen)


def _derivative(op: Operator, path: Path) -> Iterator[Place]:
    source = SourceFile(shown_path(path), path.read_text(encoding="utf-8"))
    pattern = re.compile(rf"^- name: ['\"]?{re.escape(op.name)}['\"]?\s*$", re.MULTILINE)
    for match in pattern.finditer(source.text):
        at = source.position(match.start())
        yield Place(source.name, at.line, f"{op.name}: derivative")


def _definitions(op: Operator, sources: Sources) -> Iterator[Place]:
    wanted: dict[str, str] = {}
    if isinstance(op.body, Kernels):
        wanted |= {name: f"{backend} kernel" for backend, name in op.body.by_backend}
        if op.body.shape is not None:
            wanted[op.body.shape.name] = "shape rule"
    elif isinstance(op.body, View):
        wanted[op.body.rule.name] = "view rule"
    places = (*sources.family(op.family), *sources.family("view"), *sources.generic_rules())
    seen: set[tuple[str, int]] = set()
    for definition in places:
        key = (definition.position.file, definition.position.line)
        if definition.name in wanted and key not in seen:
            seen.add(key)
            what = f"{op.name}: {wanted[definition.name]} {definition.name}"
            yield Place(*key, what)


def _family_files(family: str) -> Iterator[Place]:
    for folder in ("aten/ops", "test", "docs", "benchmarks", "examples", "python"):
        base = ROOT / folder
        for path in sorted(walk(base)) if base.is_dir() else ():
            stem = Path(path).stem
            in_family = folder == "aten/ops" and path.startswith(f"{family}/")
            if in_family or stem in (family, f"test_{family}"):
                yield Place(f"{folder}/{path}", 1, f"{family}: file of the family")


def _mentions(operators: list[Operator]) -> Iterator[Place]:
    """Yield the first line of each output that speaks of one of the operators' schemas or forms."""
    output = ROOT / "torchgen_out"
    names = sorted({form.name for op in operators for form in op.forms}, key=len, reverse=True)
    words = sorted({n.replace(".", "_") for n in names} | set(names), key=len, reverse=True)
    if not words or not output.is_dir():
        return
    shortest = [w for w in words if not any(other in w for other in words if other != w)]
    any_of = f"(?:{'|'.join(map(re.escape, words))})"
    # Namespaces of C++ and arguments may have an operator's name: schemas and calls, members of `ops`
    # and quoted names are meant, but no quoted name that opens the row of an argument.
    pattern = re.compile(rf"(?<![\w.:]){any_of}\(|(?<=ops::){any_of}(?!\w)|(?<!\{{)(['\"]){any_of}\1")
    for path in sorted(walk(output)):
        if path.startswith(".") or path in ("MANIFEST", "README.md"):
            continue
        text = (output / path).read_text(encoding="utf-8")
        # Searching for plain words first is faster: the pattern is tried at every character of a file.
        match = pattern.search(text) if any(word in text for word in shortest) else None
        if match:
            line = text.count("\n", 0, match.start()) + 1
            yield Place(f"torchgen_out/{path}", line, "generated")
