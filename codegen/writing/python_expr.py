"""Tensor-level expressions as Python that calls operators by the name of their form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from codegen.language.overloads import STR, has_tensor, type_of
from codegen.model import (
    Assign,
    Branch,
    Call,
    Each,
    Effect,
    Expr,
    Host,
    If,
    Item,
    Literal,
    Loop,
    Model,
    Number,
    Prop,
    Raise,
    Result,
    Seq,
    Statement,
    TupleType,
    Var,
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How Python source reads a tensor and calls host functions."""

    properties: Mapping[str, str]  # property -> format string over the tensor
    host: str  # before the name of a host function


_PROPERTIES = {
    "shape": "list({0}.shape)",
    "strides": "list({0}.stride())",
    "storage_offset": "{0}.storage_offset()",
    "memory_format": "host.memory_format({0})",
    "ndim": "{0}.ndim",
    "numel": "{0}.numel()",
    "dtype": "{0}.dtype",
    "device": "{0}.device",
    "layout": "{0}.layout",
    "is_complex": "{0}.is_complex()",
    "is_cpu": "{0}.is_cpu",
    "is_meta": "{0}.is_meta",
    "is_conj": "{0}.is_conj()",
    "is_neg": "{0}.is_neg()",
    "is_floating_point": "{0}.is_floating_point()",
    "defined": "({0} is not None)",
    "requires_grad": "{0}.requires_grad",
}
LOWERING = Dialect(_PROPERTIES, "host.")
_SYMBOLS = frozenset("+ - * / // % ** == != < <= > >= and or in".split())


def python_text(expr: Expr, model: Model, dialect: Dialect = LOWERING) -> str:
    """Return Python source over `ops` (operators by form name), `host` and the arguments."""

    def text_of(part: Expr) -> str:
        return python_text(part, model, dialect)

    match expr:
        case Var(name=name):
            return name
        case Number(value=value):
            return (
                f'float("{value}")'
                if value != value or value in (float("inf"), float("-inf"))
                else repr(value)
            )
        case Literal(value=value):
            return _literal(expr, value)
        case Call(form=form, args=args):
            parameters = model.form(form)[1].schema.args
            given = []
            for parameter, arg in zip(parameters, args, strict=True):
                text = text_of(arg)
                given.append(f"{parameter.name}={text}" if parameter.kwarg_only else text)
            return f"ops[{form!r}]({', '.join(given)})"
        case Prop(of=of, name=name):
            return dialect.properties[name].format(text_of(of))
        case Host(op=op, args=args):
            return _host(op, [text_of(arg) for arg in args], dialect.host)
        case If(condition=a, then=b, other=c):
            return f"({text_of(b)} if {text_of(a)} else {text_of(c)})"
        case Seq(items=items):
            inner = ", ".join(text_of(item) for item in items)
            is_tuple = isinstance(type_of(expr), TupleType)
            return f"({inner}{',' * (len(items) == 1)})" if is_tuple else f"[{inner}]"
        case Item(of=of, index=index):
            return f"{text_of(of)}[{text_of(index)}]"
        case Each():
            test = "" if expr.condition is None else f" if {text_of(expr.condition)}"
            head = _head(expr.names, [text_of(part) for part in expr.lists])
            return f"[{text_of(expr.item)} for {head}{test}]"
    raise TypeError(f"not a tensor-level expression: {expr}")


def _head(names: Sequence[str], lists: Sequence[str]) -> str:
    """Return what stands between `for` and the colon."""
    text = ", ".join(lists)
    walked = text if len(lists) == 1 else f"zip({text}, strict=False)"
    return f"{', '.join(names)} in {walked}"


def message_text(message: Sequence[str | Expr], model: Model) -> str:
    """Return Python source of an exception's message."""
    return " + ".join(repr(p) if isinstance(p, str) else _shown(p, model) for p in message)


def python_lines(statements: Sequence[Statement], model: Model) -> Iterator[str]:
    """Yield the lines of a function body."""
    for statement in statements:
        match statement:
            case Assign(names=names, value=value):
                yield f"{', '.join(names)} = {python_text(value, model)}"
            case Effect(call=call):
                yield python_text(call, model)
            case Result(value=value):
                yield f"return {python_text(value, model)}"
            case Raise(error=error, message=message):
                yield f"raise {error}({message_text(message, model)})"
            case Branch():
                yield f"if {python_text(statement.condition, model)}:"
                yield from _indented(statement.then, model)
                if statement.other:
                    yield "else:"
                    yield from _indented(statement.other, model)
            case Loop():
                lists = [python_text(expr, model) for expr in statement.lists]
                yield f"for {_head(statement.names, lists)}:"
                yield from _indented(statement.body, model)


def _indented(statements: Sequence[Statement], model: Model) -> Iterator[str]:
    yield from (f"    {line}" for line in python_lines(statements, model))


def _shown(expr: Expr, model: Model) -> str:
    """Return Python source of the text that stands for a value."""
    shows = "host.described" if has_tensor(type_of(expr)) else "str"  # a Tensor by its dtype and shape
    return f"{shows}({python_text(expr, model)})"


def _literal(expr: Literal, value: str | None) -> str:
    if value is None:
        return "None"
    return repr(value) if expr.type == STR else f"host.constant({value!r})"


def _host(op: str, args: list[str], prefix: str) -> str:
    if op in _SYMBOLS and len(args) == 2:
        return f"({args[0]} {op} {args[1]})"
    if op in ("-", "not") and len(args) == 1:
        return f"({op} {args[0]})"
    if op == "slice":
        return f"{args[0]}[{args[1]}:{args[2]}]"
    return f"{prefix}{op}({', '.join(args)})"
