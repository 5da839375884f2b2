"""How scalar expressions are written in C++: over the compute type of a loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from codegen.language.spelling import number
from codegen.model import (
    Expr,
    Number,
    Prim,
    Primitive,
    Var,
)


class ScalarSpelling:
    """Writes scalar expressions as C++ over a compute type ``T``; equal parts are computed once.

    `names` maps variables to C++ text; those in `real` have the real type of ``T`` where T is complex.
    `lines` collects ``const auto`` definitions in order.
    """

    def __init__(
        self,
        primitives: Mapping[str, Primitive],
        names: Mapping[str, str],
        device: bool,
        real: Collection[str] = (),
    ) -> None:
        self.primitives = primitives
        self.names = names
        self.device = device
        self.real = real
        self.lines: list[str] = []
        self._uses: dict[Expr, int] = {}
        self._done: dict[Expr, str] = {}

    def write(self, expr: Expr) -> str:
        """Return C++ for `expr`, adding definitions of shared parts to `lines`."""
        self._count(expr)
        return self._text(expr, _COMPUTE)

    def _count(self, expr: Expr) -> None:
        self._uses[expr] = self._uses.get(expr, 0) + 1
        if isinstance(expr, Prim) and self._uses[expr] == 1:
            for arg in expr.args:
                self._count(arg)

    def _type(self, expr: Expr) -> str | None:
        """The C++ type of a value: compute, real or bool; None for a number, which takes any."""
        if isinstance(expr, Number):
            return _COMPUTE if isinstance(expr.value, complex) else None
        if isinstance(expr, Var):
            return _REAL if expr.name in self.real else _COMPUTE
        assert isinstance(expr, Prim)
        result = self.primitives[expr.name].result
        if result == "same":
            return self._common(expr)
        return _REAL if result == "real" else "bool"

    def _common(self, expr: Prim) -> str:
        """The type of the "same" arguments: real only where none is complex."""
        kinds = self.primitives[expr.name].args
        types = {self._type(arg) for arg, kind in zip(expr.args, kinds, strict=True) if kind == "same"}
        return _REAL if types - {None} == {_REAL} else _COMPUTE

    def _text(self, expr: Expr, wanted: str) -> str:
        if isinstance(expr, Number):
            return scalar_number(expr.value, wanted)
        if isinstance(expr, Var):
            return self.names[expr.name]
        assert isinstance(expr, Prim)
        if expr in self._done:
            return self._done[expr]
        row = self.primitives[expr.name]
        common = self._common(expr)
        args = []
        for arg, kind in zip(expr.args, row.args, strict=True):
            text = self._text(arg, common)
            promoted = kind == "same" and common == _COMPUTE and self._type(arg) == _REAL
            args.append(f"{_COMPUTE}({text})" if promoted else text)
        text = (row.cuda if self.device else row.cpp).format(*args)
        if row.result == "same":
            text = f"{common}({text})"  # small integers and bool compute as int
        if self._uses[expr] > 1:
            name = f"v{len(self.lines)}"
            self.lines.append(f"const auto {name} = {text};")
            text = name
        self._done[expr] = text
        return text


_COMPUTE = "T"
_REAL = "real_t<T>"


def scalar_number(value: bool | int | float | complex, type_: str = _COMPUTE) -> str:
    """A literal of the compute type, or of its real type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, complex):
        return f"T({value.real!r}, {value.imag!r})"
    return f"{type_}({value if isinstance(value, int) else number(value)})"
