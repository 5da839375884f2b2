"""How scalar expressions are written in OpenCL C: a kernel's text over the compute type T."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from codegen.language import spelling
from codegen.model import Expr, Number, Prim, Primitive, Var


class OpenclSpelling:
    """Writes scalar expressions as OpenCL C, which has casts but neither templates nor `auto`.

    All values have the type T, conditions are int; equal parts are computed once, as `lines` say.

    Args:
        primitives: the table.
        names: the text of each variable.
        is_complex: whether T is a vector of a real and an imaginary part.
    """

    def __init__(
        self, primitives: Mapping[str, Primitive], names: Mapping[str, str], is_complex: bool = False
    ) -> None:
        self.primitives = primitives
        self.names = names
        self.is_complex = is_complex
        self.lines: list[str] = []
        self._done: dict[Expr, str] = {}

    def write(self, expr: Expr) -> str:
        """Return the text of `expr`, adding definitions of its parts to `lines`."""
        if isinstance(expr, Number):
            return _complex_number(expr.value) if self.is_complex else _number(expr.value)
        if isinstance(expr, Var):
            return self.names[expr.name]
        assert isinstance(expr, Prim)
        if expr not in self._done:
            row = self.primitives[expr.name]
            spelled = row.opencl_complex if self.is_complex else row.opencl
            assert spelled is not None
            text = spelled.format(*map(self.write, expr.args))
            is_condition = row.result == "bool"
            name = f"v{len(self.lines)}"
            self.lines.append(
                f"const int {name} = {text};" if is_condition else f"const T {name} = (T)({text});"
            )
            self._done[expr] = name
        return self._done[expr]


def _complex_number(value: bool | int | float | complex) -> str:
    parts = [repr(part) for part in (complex(value).real, complex(value).imag)]
    names = {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}
    return f"((T)({', '.join(names.get(part, part) for part in parts)}))"


def _number(value: bool | int | float | complex) -> str:
    assert not isinstance(value, complex)
    if isinstance(value, bool | int):
        return f"((T)({int(value)}))"
    if math.isnan(value):
        return "((T)(NAN))"
    if math.isinf(value):
        return "((T)(INFINITY))" if value > 0 else "((T)(-INFINITY))"
    return f"((T)({value!r}))"


def parts(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and all of its parts."""
    yield expr
    if isinstance(expr, Prim):
        for arg in expr.args:
            yield from parts(arg)


def is_spelled(expr: Expr, rows: Mapping[str, Primitive]) -> bool:
    """Whether OpenCL C has every part: the primitives in the table, and no complex numbers."""
    prims = [part for part in parts(expr) if isinstance(part, Prim)]
    numbers = [part for part in parts(expr) if isinstance(part, Number)]
    return all(rows[prim.name].opencl is not None for prim in prims) and not any(
        isinstance(part.value, complex) for part in numbers
    )


def is_spelled_complex(expr: Expr, rows: Mapping[str, Primitive]) -> bool:
    """Whether OpenCL C has every part for complex numbers, and the result has the type of the operands."""
    prims = [rows[part.name] for part in parts(expr) if isinstance(part, Prim)]
    return all(row.opencl_complex is not None and row.result != "real" for row in prims)


def categories(expr: Expr, rows: Mapping[str, Primitive]) -> set[str]:
    """Return the categories of dtypes that a device can compute `expr` in.

    A device cannot raise an error for an integer that is divided by 0, so the host does.
    """
    known = {"bool", "integral", "floating"}
    for part in parts(expr):
        if isinstance(part, Prim) and rows[part.name].integer_divisor is not None:
            known -= {"integral", "bool"}
    return known


def variable(name: str) -> str:
    """Return an argument's name in a kernel, which hides none of its own names."""
    return f"{spelling.local(name)}_"
