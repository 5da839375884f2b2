"""Statements of function bodies at the tensor level."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.model.expressions import Expr
from codegen.model.schema import ExprType


@dataclass(frozen=True, slots=True)
class Assign:
    """``names = value``; several names take the results of a tuple."""

    names: tuple[str, ...]
    types: tuple[ExprType, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Effect:
    """A call of an in-place operator whose result nobody reads."""

    call: Expr


@dataclass(frozen=True, slots=True)
class Result:
    """``return value``; the value has the type of the operator's results."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Raise:
    """An exception of this kind; the parts of the message are texts and values."""

    error: str
    message: tuple[str | Expr, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """``if condition: then else: other``; `declares`: new names that both sides assign."""

    condition: Expr
    then: tuple[Statement, ...]
    other: tuple[Statement, ...]
    declares: tuple[tuple[str, ExprType], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """``for names in lists``; several lists are walked side by side, as by ``zip``."""

    names: tuple[str, ...]
    lists: tuple[Expr, ...]
    body: tuple[Statement, ...]


Statement = Assign | Effect | Result | Raise | Branch | Loop
