"""Schemas and their types, and places in YAML files."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.model.hashing import Hashed, hashed_once


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a YAML file; line and column count from 1. Positions take no part in equality."""

    file: str
    line: int
    column: int


@hashed_once
@dataclass(frozen=True, slots=True)
class BaseType(Hashed):
    """``Tensor``, ``int``, ``Scalar``, ``ScalarType``, ``str``, ..."""

    name: str


@hashed_once
@dataclass(frozen=True, slots=True)
class OptionalType(Hashed):
    """A value or None."""

    elem: Type


@hashed_once
@dataclass(frozen=True, slots=True)
class ListType(Hashed):
    """``elem[]`` or ``elem[size]``; a sized int list also accepts one int for all places."""

    elem: Type
    size: int | None = None


@hashed_once
@dataclass(frozen=True, slots=True)
class TupleType(Hashed):
    """Several results, or a tuple display; never in a schema."""

    items: tuple[ExprType, ...]


Type = BaseType | OptionalType | ListType
ExprType = Type | TupleType


@dataclass(frozen=True, slots=True)
class Alias:
    """``(a)``, ``(a!)``, ``(a -> *)``, ``(a|b!)``: the text's parts, kept so that printing is lossless."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    is_write: bool


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of a schema."""

    name: str
    type: Type
    default: str | None  # as written; None: required
    alias: Alias | None
    kwarg_only: bool
    is_out: bool = False  # the trailing ``*, Tensor(a!) out`` group


@dataclass(frozen=True, slots=True)
class Return:
    """One result of a schema."""

    name: str | None
    type: Type
    alias: Alias | None


@dataclass(frozen=True, slots=True)
class OperatorName:
    """The parts of ``add_.Tensor``."""

    base: str  # "add", without the in-place underscore
    overload: str  # "Tensor", "" when there is none
    inplace: bool

    def __str__(self) -> str:
        name = self.base + ("_" if self.inplace else "")
        return f"{name}.{self.overload}" if self.overload else name


@dataclass(frozen=True, slots=True)
class Schema:
    """One signature, without loss of the text that it was written as."""

    name: OperatorName
    args: tuple[Argument, ...]  # every argument in order, out arguments last
    returns: tuple[Return, ...]
