"""Reference pages: torchgen_out/docs/<family>.md, one section per name, and their list, README.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.deriving.signatures import Callable, function_path, functions, methods
from codegen.model import Model
from codegen.writing.describe import Documentation, Section, document, documented_forms
from codegen.writing.python_types import show_signature
from codegen.writing.render import File, render


@dataclass(frozen=True, slots=True)
class PageDecl:
    """One name's section."""

    name: str
    lines: tuple[str, ...]


def path_of(callable_: Callable) -> str:
    """Return where Python finds a function or method."""
    if callable_.namespace is None:
        return f"flambeau.Tensor.{callable_.name}"
    first = callable_.signatures[0]
    return function_path(first.op, first.form)


def _aliases(callable_: Callable) -> str:
    modules = {"nn": "nn.functional."}
    names = [
        f"`flambeau.{modules.get(a.namespace, f'{a.namespace}.') if a.namespace else ''}{a.name}`"
        for a in callable_.aliases
        if a.namespace is not None
    ]
    return f"Also called {', '.join(names)}." if names else ""


def _section(section: Section) -> Iterator[str]:
    yield f"**{section.title}**"
    yield ""
    if section.verbatim:
        yield from ("```python", *section.lines, "```")
    elif section.title in ("Formula", "Gradient"):
        yield from ("```text", *section.lines, "```")
    elif len(section.lines) == 1:
        yield _markdown(section.lines[0])
    else:
        yield from (f"- {_markdown(line)}" for line in section.lines)
    yield ""


def _markdown(text: str) -> str:
    """Return a sentence whose signs Markdown would take for its own as they are written."""
    pieces = text.split("`")
    escaped = [part if i % 2 else _escaped(part) for i, part in enumerate(pieces)]
    return "`".join(escaped)


def _escaped(text: str) -> str:
    for sign in "\\*_[]<>|":
        text = text.replace(sign, f"\\{sign}")
    return text


def _page(callable_: Callable, further: tuple[Callable, ...], model: Model) -> PageDecl:
    forms = [
        f"{'Tensor.' if c.namespace is None else ''}{show_signature(c, s)}"
        for c in further
        for s in c.signatures
    ]
    found: Documentation = document(callable_, model)
    lines = ["```text", *found.signatures, *dict.fromkeys(forms), "```", "", _markdown(found.summary), ""]
    aliases = _aliases(callable_)
    if aliases:
        lines += [aliases, ""]
    for section in found.sections:
        lines += _section(section)
    while lines and not lines[-1].strip():
        lines.pop()
    return PageDecl(path_of(callable_), tuple(lines))


def emit(model: Model) -> Iterator[File]:
    """Yield one page per family, and their list."""
    by_family: dict[str, list[tuple[Callable, tuple[Callable, ...]]]] = {}
    for callable_, further in documented_forms((*functions(model), *methods(model))):
        if not callable_.name.startswith("_"):
            by_family.setdefault(callable_.family, []).append((callable_, further))
    index: list[str] = []
    for family in sorted(by_family):
        pages = tuple(_page(callable_, further, model) for callable_, further in by_family[family])
        names = ", ".join(page.name.removeprefix("flambeau.") for page in pages)
        index.append(f"- [{family}]({family}.md): {_escaped(names)}")
        yield render("reference.md.j2", f"docs/{family}.md", title=family, pages=pages)
    yield render(
        "reference.md.j2",
        "docs/README.md",  # no family can take this name
        title="Operators",
        pages=(PageDecl("By family", tuple(index)),),
    )
