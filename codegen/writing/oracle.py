"""Scalar expressions as NumPy text: the reference of pointwise operators, and their evaluable lowering."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from codegen.model import Expr, Number, Pointwise, Prim, Primitive, Var

_ARGUMENT = re.compile(r"\bx(\d)\b")
_CALL = re.compile(r"[\w.]+\([^()]*\)")


def numpy_text(expr: Expr, primitives: Mapping[str, Primitive]) -> str:
    """Return a Python expression over np, sp (scipy.special) and the variables."""
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, Number):
        return _number(expr)
    assert isinstance(expr, Prim)
    oracle = primitives[expr.name].oracle
    args = [numpy_text(arg, primitives) for arg in expr.args]
    text = _ARGUMENT.sub(lambda m: args[int(m[1])], oracle)
    return text if _CALL.fullmatch(oracle) else f"({text})"


def _number(expr: Number) -> str:
    value = expr.value
    if isinstance(value, float) and not math.isfinite(value):
        return f"({'-' if value < 0 else ''}np.{'nan' if math.isnan(value) else 'inf'})"
    return f"({value!r})" if not isinstance(value, complex) and value < 0 else repr(value)


def pointwise_text(body: Pointwise, primitives: Mapping[str, Primitive]) -> str:
    """Return the reference of a pointwise operator over its arguments."""
    texts = [(case, numpy_text(expr, primitives)) for case, expr in body.cases]
    result = texts[-1][1]
    for case, text in texts[-2::-1]:
        result = f"({text} if {body.switch} == {case!r} else {result})"
    return result
