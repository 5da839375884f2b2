"""`let:` of a composite: names for expressions that its expression and its checks read several times.

A name stands for its expression. Calls of operators that occur several times are made once anyhow, so that
naming one costs nothing, and what no branch reads is not computed.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.language.overloads import AnyType, plain, type_of
from codegen.language.pyexpr import map_children, names_in
from codegen.language.scope import Scope
from codegen.language.tensor_expr import TensorParser
from codegen.model import Body, Expr, Statement, Var
from codegen.reading.block_parser import BlockParser
from codegen.reading.context import Context, Lets
from codegen.reading.entries import Draft
from codegen.reading.fields import is_identifier
from codegen.source.nodes import Text


def parse_with_lets(
    draft: Draft,
    context: Context,
    text: Text,
    what: str,
    want: AnyType | None,
    span: tuple[int, int | None] = (0, None),
) -> Expr | None:
    """Parse (a part of) a text over the arguments and the names of a composite's `let`."""
    lets = composite_lets(draft, context)
    if lets is None:
        return None
    return _parse(draft, context, text, what, want, span, lets)


def parse_body(draft: Draft, context: Context, text: Text, want: AnyType) -> tuple[Statement, ...] | None:
    """Parse a function body over the arguments and the names of the composite's `let`."""
    lets = composite_lets(draft, context)
    if lets is None:
        return None
    names = lets.exprs

    def finished(expr: Expr) -> Expr:
        lets.read.update(names_in(expr))
        return _substituted(expr, names)

    scope = _scope(draft, context, draft.name, lets)
    return BlockParser(scope, context.collector, want, finished).parse(text)


def composite_lets(draft: Draft, context: Context) -> Lets | None:
    """Read the names in order, each over those before it; None if one has a mistake (reported once)."""
    if draft.name in context.lets:
        return context.lets[draft.name]
    lets, good = Lets(), True
    fields = draft.fields.map("let") if draft.kind_key == "composite" else None
    taken = {a.name for a in draft.schema.args}
    for key, text in () if fields is None else fields.node.items:
        if not is_identifier(key.value) or key.value in taken:
            message = f"let: '{key.value}' cannot be a name here"
            hint = "choose an identifier that is neither an argument nor another name"
            context.collector.add(key.position, "FB0108", message, hint, len(key.value))
            good = False
            continue
        taken.add(key.value)
        what = f"let {key.value} of {draft.name}"
        expr = _parse(draft, context, text, what, None, (0, None), lets) if isinstance(text, Text) else None
        good &= expr is not None
        if expr is not None:
            lets.exprs[key.value] = expr
        else:
            lets.failed.add(key.value)
    context.lets[draft.name] = lets if good else None
    return context.lets[draft.name]


def report_unused(draft: Draft, context: Context, body: Body | None) -> None:
    """A name that neither the expression nor a check reads is a mistake."""
    if body is None:
        return
    lets = context.lets.get(draft.name)
    fields = draft.fields.map("let")
    if lets is None or fields is None:
        return
    for key, _ in fields.node.items:
        if key.value in lets.exprs and key.value not in lets.read:
            message = f"let: '{key.value}' is never read"
            context.collector.add(key.position, "FB0309", message, "use it, or remove it", len(key.value))


def _parse(
    draft: Draft,
    context: Context,
    text: Text,
    what: str,
    want: AnyType | None,
    span: tuple[int, int | None],
    lets: Lets,
) -> Expr | None:
    scope = _scope(draft, context, what, lets)
    expr = TensorParser(scope, context.collector).parse(text, want, span)
    if expr is None:
        return None
    lets.read |= names_in(expr)
    return _substituted(expr, lets.exprs)


def _scope(draft: Draft, context: Context, what: str, lets: Lets) -> Scope:
    variables: dict[str, AnyType] = {a.name: plain(a.type) for a in draft.schema.args}
    variables |= {name: type_of(expr) for name, expr in lets.exprs.items()}
    scope = context.scope(variables, draft, what, inplace_allowed=True)
    return replace(scope, failed=frozenset(lets.failed)) if lets.failed else scope


def _substituted(expr: Expr, exprs: dict[str, Expr]) -> Expr:
    if isinstance(expr, Var):
        return exprs.get(expr.name, expr)
    return map_children(expr, lambda part: _substituted(part, exprs)) if exprs else expr
