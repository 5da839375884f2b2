"""`explain OP`: everything derived from an operator's entry, with provenance."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence

from codegen import model
from codegen.commands.authors import add_option, author_of
from codegen.commands.check import print_text
from codegen.commands.places import of_operators, parts_of, select
from codegen.commands.wrappers import called_by, wrappers_of
from codegen.deriving.provenance import ABSENT, artefacts
from codegen.deriving.signatures import functions, methods, python_paths
from codegen.language.blocks import sole_value
from codegen.language.schema import show_schema
from codegen.language.show import Infix, show, show_body
from codegen.load import load
from codegen.model import Expr, Model, Operator, Statement
from codegen.reading.extension import Author
from codegen.source.diagnostics import did_you_mean
from codegen.writing.describe import help_text


def chosen(name: str, prog: str, author: Author | None = None) -> tuple[Model, list[Operator]] | None:
    """Load the specification and find the operators called `name`; None after an error message."""
    loaded, found = load(keep_going=True, author=author)
    if found:
        print_text(found, sys.stderr)
    if loaded is None:  # nothing can be read
        return None
    operators = select(loaded, name) or called_by(wrappers_of(name), loaded)
    if operators:
        return loaded, operators
    names = {n for op in loaded.operators for n in (op.name, op.schema.name.base, op.family)}
    hint = did_you_mean(name, sorted(names))
    print(f"{prog}: no operator or family is called '{name}'; {hint}".rstrip("; "), file=sys.stderr)
    return None


def run(argv: list[str]) -> int:
    """Print one block per operator."""
    parser = argparse.ArgumentParser(prog="codegen explain", description=__doc__)
    parser.add_argument("operator", help="an operator, a form such as add_.Tensor, or a family")
    add_option(parser)
    options = parser.parse_args(argv)
    author = author_of(parser, options)
    result = chosen(options.operator, "explain", author)
    if result is None:
        return 1
    loaded, operators = result
    blocks = ["\n".join(_block(op, loaded, author)) for op in operators]
    print("\n\n".join([*blocks, *_documentation(operators, loaded)]))
    return 0


def _documentation(operators: Sequence[Operator], loaded: Model) -> Iterator[str]:
    """Yield what `help()` shows of the function that users call, or else of the method."""
    names = {op.schema.name.base for op in operators}
    chosen = {op.name for op in operators}
    callables = [c for c in (*functions(loaded), *methods(loaded)) if c.signatures[0].op.name in chosen]
    if len(names) == 1 and callables:
        yield f"documentation:\n{textwrap.indent(help_text(callables[0], loaded), '  ')}"


def _block(op: Operator, loaded: Model, author: Author | None) -> Iterator[str]:
    yield show_schema(op.schema)
    yield f"  {op.position.file}:{op.position.line}   family {op.family}, {op.kind.value}"
    yield f"  dtype: {op.dtype.name}, accepts {', '.join(op.dtype.allowed)}"
    yield from (f"  {line}" for line in _body(op, Infix(loaded.primitives).show))
    yield "  forms:"
    for form in op.forms:
        paths = () if op.internal else python_paths(op, form, loaded.library)
        yield f"    {show_schema(form.schema)}  [{', '.join(paths) or 'C++ only'}]"
    yield from _derivative(op)
    yield "  artefacts:"
    for artefact in artefacts(op):
        if artefact.status != ABSENT or artefact.detail:
            yield f"    {artefact.name:<10} {artefact.status:<8} {artefact.detail}"
    yield "  places:"
    yield from (f"    {place}" for place in of_operators([op], parts_of([op], loaded), author))


def _body(op: Operator, scalar: Callable[[Expr], str]) -> Iterator[str]:
    for check in (*op.checks, *op.out_checks):
        message = "".join(part if isinstance(part, str) else f"{{{show(part)}}}" for part in check.message)
        yield f"check: {show(check.condition)}, else {check.error}: {message}"
    match op.body:
        case model.Pointwise(switch=switch, cases=cases):
            for value, expr in cases:
                yield f"pointwise{f' [{switch}={value}]' if switch else ''}: {scalar(expr)}"
        case model.Reduce():
            for name, expr in op.body.let:
                yield f"let {name}: {show(expr)}"
            yield f"map: {scalar(op.body.map)}"
            yield f"combine: {op.body.combine}, empty: {op.body.empty}"
            yield f"finish: {scalar(op.body.finish)}"
        case model.Composite(expr=expr):
            if expr is not None:
                yield f"composite: {show(expr)}"
            else:
                yield "composite:"
                yield from (f"    {line}" for line in show_body(op.body.block))
        case model.View(rule=rule):
            yield f"view: {rule.name}({', '.join(rule.args)})"
        case model.Kernels(by_backend=kernels):
            yield "kernels: " + ", ".join(f"{backend}: {name}" for backend, name in kernels)


def _derivative(op: Operator) -> Iterator[str]:
    if op.derivative is None:
        return
    yield "  gradients:"
    for formula in op.derivative.formulas:
        names = ", ".join(formula.args)
        if formula.body:
            yield from _function(f"{names}", formula.body, f"   ({formula.origin})")
        else:
            text = "not_implemented" if formula.not_implemented else "none"
            yield f"    {names}: {text}   ({formula.origin})"
    for name, rule in op.derivative.forward:
        if isinstance(rule, str):
            yield f"    forward {name}: {rule}"
        else:
            yield from _function(f"forward {name}", rule)


def _function(name: str, body: Sequence[Statement], origin: str = "") -> Iterator[str]:
    value = sole_value(body)
    if value is not None:
        yield f"    {name}: {show(value)}{origin}"
        return
    yield f"    {name}:{origin}"
    yield from (f"        {line}" for line in show_body(body))
