"""Expressions as text, in the syntax that they were written in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from codegen import model
from codegen.model import Expr, Primitive, Statement

# How tightly Python's operators bind; -x stands between * and **.
_LEVELS = ("or", "and", "not", "== != < <= > >=", "|", "^", "&", "<< >>", "+ -", "* / // %", "-x ~", "**")
_BINDING = {symbol: level for level, symbols in enumerate(_LEVELS) for symbol in symbols.split()}
_ATOM = len(_LEVELS)


class Infix:
    """Writes scalar expressions with operators in place of the primitives that they mean."""

    def __init__(self, primitives: Mapping[str, Primitive]) -> None:
        self._symbols = {name: row.infix for name, row in primitives.items() if row.infix}

    def show(self, expr: Expr) -> str:
        """Return the expression, with the parentheses that it needs."""
        return self._show(expr)[0]

    def _show(self, expr: Expr) -> tuple[str, int]:
        if not isinstance(expr, model.Prim):
            return show(expr), _ATOM
        symbol, args = self._symbols.get(expr.name), expr.args
        if symbol == "if":
            condition, then, other = (self.show(arg) for arg in args)
            return f"({then} if {condition} else {other})", _ATOM
        if symbol is None:
            return f"{expr.name}({', '.join(map(self.show, args))})", _ATOM
        if len(args) == 1:
            level = _BINDING["-x" if symbol == "-" else symbol]
            blank = " " if symbol.isalpha() else ""
            return f"{symbol}{blank}{self._within(args[0], level)}", level
        level = _BINDING[symbol]
        # ** groups to the right, comparisons do not group at all, all others group to the left.
        left = level + (symbol == "**" or level == _BINDING["=="])
        right = level + (symbol != "**")
        return f"{self._within(args[0], left)} {symbol} {self._within(args[1], right)}", level

    def _within(self, expr: Expr, level: int) -> str:
        text, own = self._show(expr)
        return text if own >= level else f"({text})"


def show(expr: Expr) -> str:
    """Return an expression with every operator call resolved to the form that it means."""
    match expr:
        case model.Var(name=name):
            return name
        case model.Number(value=value):
            return repr(value)
        case model.Literal(value=value):
            quoted = isinstance(expr.type, model.BaseType) and expr.type.name == "str"
            return repr(value) if quoted else str(value)
        case model.Prim(name=name, args=args):
            return f"{name}({', '.join(map(show, args))})"
        case model.Call(form=form, args=args):
            return f"{form}({', '.join(map(show, args))})"
        case model.Prop(of=of, name=name):
            return f"{show(of)}.{name}"
        case model.Host():
            return _host(expr)
        case model.If(condition=condition, then=then, other=other):
            return f"({show(then)} if {show(condition)} else {show(other)})"
        case model.Seq(items=items):
            inner = ", ".join(map(show, items))
            return f"({inner})" if isinstance(expr.type, model.TupleType) else f"[{inner}]"
        case model.Item(of=of, index=index):
            return f"{show(of)}[{show(index)}]"
        case model.Each(names=names, lists=lists, condition=condition, item=item):
            test = "" if condition is None else f" if {show(condition)}"
            return f"[{show(item)} for {walk(names, lists)}{test}]"


def walk(names: Sequence[str], lists: Sequence[Expr]) -> str:
    """Return what stands between `for` and the colon."""
    text = ", ".join(map(show, lists))
    return f"{', '.join(names)} in {text if len(lists) == 1 else f'zip({text})'}"


def show_body(statements: Sequence[Statement]) -> Iterator[str]:
    """Yield the lines of a function body."""
    for statement in statements:
        match statement:
            case model.Assign(names=names, value=value):
                yield f"{', '.join(names)} = {show(value)}"
            case model.Effect(call=call):
                yield show(call)
            case model.Result(value=value):
                yield f"return {show(value)}"
            case model.Raise(error=error):
                text = "".join(p if isinstance(p, str) else f"{{{show(p)}}}" for p in statement.message)
                yield f'raise {error}(f"{text}")'
            case model.Branch():
                yield f"if {show(statement.condition)}:"
                yield from (f"    {line}" for line in show_body(statement.then))
                if statement.other:
                    yield "else:"
                    yield from (f"    {line}" for line in show_body(statement.other))
            case model.Loop():
                yield f"for {walk(statement.names, statement.lists)}:"
                yield from (f"    {line}" for line in show_body(statement.body))


def _host(expr: model.Host) -> str:
    parts = [show(arg) for arg in expr.args]
    if expr.op == "slice":
        begin, end = ("" if part == "None" else part for part in parts[1:])
        return f"{parts[0]}[{begin}:{end}]"
    if expr.op.isidentifier() and expr.op not in ("and", "or", "not"):
        return f"{expr.op}({', '.join(parts)})"
    if len(parts) == 1:
        return f"({expr.op} {parts[0]})"
    return f"({f' {expr.op} '.join(parts)})"
