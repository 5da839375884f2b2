"""Scalar expressions as NumPy text: the reference of pointwise operators, and their evaluable lowering."""

from __future__ import annotations

import re
from collections.abc import Mapping

from codegen.model import Expr, Number, Pointwise, Prim, Primitive, Var

_ARGUMENT = re.compile(r"\bx(\d)\b")


def numpy_text(expr: Expr, primitives: Mapping[str, Primitive]) -> str:
    """Return a Python expression over np, sp (scipy.special) and the variables."""
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, Number):
        return _number(expr)
    assert isinstance(expr, Prim)
    args = [numpy_text(arg, primitives) for arg in expr.args]
    return "(" + _ARGUMENT.sub(lambda m: f"({args[int(m[1])]})", primitives[expr.name].oracle) + ")"


def _number(expr: Number) -> str:
    text = repr(expr.value)
    return f"np.{text.lstrip('-')}" if text.lstrip("-") in ("inf", "nan") and text[0] != "-" else text.replace("-inf", "-np.inf")


def pointwise_text(body: Pointwise, primitives: Mapping[str, Primitive]) -> str:
    """Return the reference of a pointwise operator over its arguments."""
    texts = [(case, numpy_text(expr, primitives)) for case, expr in body.cases]
    result = texts[-1][1]
    for case, text in texts[-2::-1]:
        result = f"({text} if {body.switch} == {case!r} else {result})"
    return result
