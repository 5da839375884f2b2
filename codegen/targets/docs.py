"""Reference pages: torchgen_out/docs/<family>.md and their list, README.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.deriving import slots
from codegen.deriving.signatures import function_path
from codegen.language.schema import show_schema
from codegen.language.show import show
from codegen.model import Form, FormKind, Kind, Model, Operator, Pointwise
from codegen.writing import describe
from codegen.writing.oracle import pointwise_text
from codegen.writing.render import File, render


@dataclass(frozen=True, slots=True)
class PageDecl:
    """One operator's section."""

    name: str
    lines: tuple[str, ...]


def _forms(op: Operator) -> Iterator[str]:
    yield "```"
    for form in op.forms:
        yield show_schema(form.schema) + _where(form)
    yield "```"
    if op.aliases:
        yield ""
        yield "Also called " + ", ".join(f"`flambeau.{name}`" for name in op.aliases) + "."


def _where(form: Form) -> str:
    places = ["function"] * form.is_function + ["method"] * form.is_method
    return f"    # {', '.join(places)}" if places and form.kind is not FormKind.OUT else ""


def _gradient(op: Operator, model: Model) -> Iterator[str]:
    if op.derivative is None:
        if op.kind is Kind.COMPOSITE:
            yield "Gradient: through the operators that it is made of."
        return
    rows: list[str] = []
    for formula in op.derivative.formulas:
        names = ", ".join(formula.args)
        if formula.not_implemented:
            rows.append(f"| {names} | not implemented | {formula.origin} |")
        elif formula.expr is None:
            rows.append(f"| {names} | none | {formula.origin} |")
        else:
            rows.append(f"| {names} | `{_readable(show(formula.expr), model)}` | {formula.origin} |")
    if rows:
        yield "| argument | gradient | origin |"
        yield "|---|---|---|"
        yield from rows
    for name, rule in op.derivative.forward:
        text = rule if isinstance(rule, str) else f"`{show(rule)}`"
        yield ""
        yield f"Forward mode, {name}: {text}."


def _readable(text: str, model: Model) -> str:
    return text.replace("|", "\\|")


def _computes(op: Operator, model: Model) -> Iterator[str]:
    if isinstance(op.body, Pointwise):
        yield f"Elementwise, in NumPy's words: `{pointwise_text(op.body, model.primitives)}`."
        yield ""
    yield from describe.dtypes(op)


def _rules(op: Operator) -> Iterator[str]:
    shapes, errors = " ".join(describe.shapes(op)), list(describe.errors(op))
    if shapes:
        yield f"Shapes: {shapes}"
    if errors:
        yield ""
        yield "Errors:"
        yield ""
        yield from (f"- {error}" for error in errors)


def _page(op: Operator, model: Model) -> PageDecl:
    lines = [*_forms(op), "", *op.doc.strip().split("\n"), ""]
    for part in (_computes(op, model), _rules(op), _gradient(op, model), _example(op)):
        text = list(part)
        if text:
            lines += [*text, ""]
    while lines and not lines[-1].strip():
        lines.pop()
    return PageDecl(
        function_path(op, op.forms[0]) + (f" ({op.schema.name.overload})" if op.schema.name.overload else ""),
        tuple(lines),
    )


def _example(op: Operator) -> Iterator[str]:
    """The first sample call of the tests."""
    if not op.test.samples or not op.forms[0].is_function:
        return
    call = f"{function_path(op, op.forms[0])}({op.test.samples[0]})"
    yield f"Tested as `{call}`, where t(2, 3) stands for a tensor of that shape."


def emit(model: Model) -> Iterator[File]:
    """Yield one page per family, and their list."""
    index: list[str] = []
    for family, operators in slots.families(model):
        public = [op for op in operators if not op.internal and not op.name.startswith("_")]
        if not public:
            continue
        pages = tuple(_page(op, model) for op in public)
        index.append(
            f"- [{family}]({family}.md): " + ", ".join(dict.fromkeys(op.schema.name.base for op in public))
        )
        yield render("reference.md.j2", f"docs/{family}.md", title=family, pages=pages)
    yield render(
        "reference.md.j2",
        "docs/README.md",  # no family can take this name
        title="Operators",
        pages=(PageDecl("By family", tuple(index)),),
    )
