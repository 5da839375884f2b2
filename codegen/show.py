"""Expressions as text, in the syntax that they were written in."""

from __future__ import annotations

from codegen import model
from codegen.model import Expr


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
