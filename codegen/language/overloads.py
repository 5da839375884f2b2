"""Which operator form a call means: conversion of argument types and overload resolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.language import schema as schema_text
from codegen.model import (
    Argument,
    BaseType,
    Call,
    Expr,
    ExprType,
    Form,
    FormKind,
    If,
    ListType,
    Literal,
    Number,
    OptionalType,
    Position,
    Prim,
    Schema,
    Seq,
    TupleType,
    Type,
)
from codegen.model.enumerations import ENUM_INTS

TENSOR = BaseType("Tensor")
INT = BaseType("int")
FLOAT = BaseType("float")
BOOL = BaseType("bool")
STR = BaseType("str")
SCALAR = BaseType("Scalar")
COMPLEX = BaseType("complex")
NONE = BaseType("None")
DTYPE = BaseType("ScalarType")
DEVICE = BaseType("Device")
INTS = ListType(INT)

AnyType = ExprType

_WIDER: dict[str, tuple[str, ...]] = {
    "bool": ("Scalar",),
    "int": ("float", "Scalar"),
    "float": ("Scalar",),
    "complex": ("Scalar",),
}
_SPECIAL_VALUES = {"inf": float("inf"), "nan": float("nan")}


def plain(type_: Type) -> Type:
    """SymInt and DeviceIndex are ints to expressions."""
    if isinstance(type_, BaseType):
        return INT if type_.name in ("SymInt", "DeviceIndex") else type_
    elem = plain(type_.elem)
    return type_ if elem is type_.elem else replace(type_, elem=elem)


def is_tensor(type_: AnyType) -> bool:
    """Whether the type is Tensor or Tensor?."""
    return type_ in (TENSOR, OptionalType(TENSOR))


def has_tensor(type_: AnyType) -> bool:
    """Whether the type is Tensor, or a list or option of Tensors."""
    if isinstance(type_, TupleType):
        return any(has_tensor(item) for item in type_.items)
    return type_ == TENSOR if isinstance(type_, BaseType) else has_tensor(type_.elem)


def show(type_: AnyType) -> str:
    """Return the type's text for messages."""
    if isinstance(type_, TupleType):
        return f"({', '.join(show(item) for item in type_.items)})"
    return schema_text.show_type(type_)


def returns_type(schema: Schema) -> AnyType:
    """Return what a call of the schema yields."""
    types = tuple(plain(r.type) for r in schema.returns)
    return types[0] if len(types) == 1 else TupleType(types)


def rank(have: AnyType, want: Type) -> int | None:
    """Return how far a value is from a parameter's type: 0 fits exactly, None does not convert."""
    want = plain(want)
    if have == want:
        return 0
    if isinstance(want, OptionalType):
        if have == NONE:
            return 0
        return rank(have.elem if isinstance(have, OptionalType) else have, want.elem)
    if isinstance(want, ListType):
        return _rank_list(have, want)
    if have == OptionalType(TENSOR) and want == TENSOR:
        return 1  # an undefined tensor is still a tensor
    if isinstance(have, BaseType) and want.name in _WIDER.get(have.name, ()):
        return 1
    return None


def _rank_list(have: AnyType, want: ListType) -> int | None:
    if isinstance(have, ListType):
        if have.elem == NONE:
            return 0  # the empty list
        return rank(have.elem, want.elem)
    if isinstance(have, TupleType):
        ranks = [rank(item, want.elem) for item in have.items]
        known = [r for r in ranks if r is not None]
        return max(known, default=0) if len(known) == len(ranks) else None
    if want.size is not None and want.elem in (INT, FLOAT):
        inner = rank(have, want.elem)  # one number stands for each place
        return None if inner is None else inner + 1
    return None


def coerce(expr: Expr, want: Type) -> Expr:
    """Give literals and displays the parameter's own type, and make a one-element list of a number."""
    want = plain(want)
    target = want.elem if isinstance(want, OptionalType) else want
    if isinstance(expr, Literal) and expr.value is None:
        return replace(expr, type=want)
    if isinstance(expr, Number):
        if target == FLOAT:
            return replace(expr, value=_as_float(expr.value), type=FLOAT)
    elif isinstance(expr, Seq) and isinstance(target, ListType):
        items = tuple(coerce(item, target.elem) for item in expr.items)
        return replace(expr, items=items, type=target)
    elif isinstance(expr, If) and isinstance(expr.type, OptionalType | ListType):
        return replace(expr, then=coerce(expr.then, want), other=coerce(expr.other, want))
    if isinstance(target, ListType) and not isinstance(type_of(expr), ListType | OptionalType):
        return Seq((coerce(expr, target.elem),), target, expr.position)
    return expr


def _as_float(value: bool | int | float | complex) -> float | complex:
    return value if isinstance(value, complex) else float(value)


def type_of(expr: Expr) -> AnyType:
    """Return an expression's type; tensor-level expressions all carry one."""
    return TENSOR if isinstance(expr, Prim) else expr.type


def default_value(arg: Argument, position: Position) -> Expr:
    """Return an argument's default as an expression."""
    assert arg.default is not None
    return _literal(arg.default, plain(arg.type), position)


def _literal(text: str, type_: Type, position: Position) -> Expr:
    if text == "None":
        return Literal(None, type_, position)
    if isinstance(type_, OptionalType):
        return _literal(text, type_.elem, position)
    if isinstance(type_, ListType):
        inner = text[1:-1] if text.startswith("[") else text
        parts = [part.strip() for part in inner.split(",") if part.strip()]
        return Seq(tuple(_literal(p, type_.elem, position) for p in parts), type_, position)
    if type_ == STR:
        return Literal(text[1:-1], type_, position)
    if text in ("True", "False"):
        return Number(text == "True", type_ if type_ != SCALAR else BOOL, position)
    if text in ENUM_INTS:
        return Number(ENUM_INTS[text], INT, position)
    if text in _SPECIAL_VALUES or text.lstrip("-")[:1].isdigit() or text.lstrip("-")[:1] == ".":
        return _number(text, type_, position)
    return Literal(text, type_, position)


def _number(text: str, type_: Type, position: Position) -> Number:
    if type_ == FLOAT or not text.lstrip("-").isdigit():
        return Number(_SPECIAL_VALUES.get(text) or float(text), FLOAT, position)
    return Number(int(text), INT, position)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a form does not take the arguments; `index` is the offending argument, if it is one."""

    code: str
    message: str
    index: int | str | None
    penalty: int  # distance from a match; the mismatch with the smallest one is reported


@dataclass(frozen=True, slots=True)
class Bound:
    """A form that takes the arguments: its total rank and the complete argument list."""

    form: Form
    rank: int
    args: tuple[Expr, ...]


ALL = "*every*"


class Forms:
    """All forms of all operators by the name that expressions call them by."""

    def __init__(self, forms: Sequence[Form], infix: Mapping[str, Sequence[str]]) -> None:
        self._by_name: dict[str, Form] = {form.name: form for form in forms}
        self._infix = infix
        self._by_call: dict[str, list[Form]] = {}
        for form in forms:
            if form.kind is not FormKind.OUT:
                name = form.schema.name
                self._by_call.setdefault(name.base + "_" * name.inplace, []).append(form)
        self.asked: set[str] = set()  # the names and symbols that answers were given for; ALL: every one

    def named(self, call_name: str) -> list[Form]:
        """Return the forms that `call_name(...)` may mean."""
        self.asked.add(call_name)
        return self._by_call.get(call_name, [])

    def written(self, symbol: str) -> list[Form]:
        """Return the forms that an infix symbol may mean."""
        self.asked.add(symbol)
        return [form for base in self._infix.get(symbol, ()) for form in self.named(base)]

    def find(self, name: str) -> Form | None:
        """Return the form of this name, with its overload."""
        self.asked.add(name.split(".")[0])
        return self._by_name.get(name)

    def every(self) -> tuple[str, ...]:
        """Return the name of every form."""
        self.asked.add(ALL)
        return tuple(self._by_name)

    def names(self) -> list[str]:
        """Return every callable name."""
        self.asked.add(ALL)
        return list(self._by_call)


def resolve(
    forms: Sequence[Form],
    args: Sequence[Expr],
    kwargs: Mapping[str, Expr],
    position: Position,
) -> Bound | list[tuple[Form, Mismatch]]:
    """Return the closest form, or why each one fails. The first of equals wins: YAML order."""
    failures: list[tuple[Form, Mismatch]] = []
    best: Bound | None = None
    for form in forms:
        result = bind(form, args, kwargs, position)
        if isinstance(result, Mismatch):
            failures.append((form, result))
        elif best is None or result.rank < best.rank:
            best = result
    return failures if best is None else best


def bind(
    form: Form, args: Sequence[Expr], kwargs: Mapping[str, Expr], position: Position
) -> Bound | Mismatch:
    """Match arguments to a form's parameters, fill in defaults and convert."""
    parameters = form.schema.args
    positional = [p for p in parameters if not p.kwarg_only]
    if len(args) > len(positional):
        message = f"expected at most {len(positional)} positional arguments, got {len(args)}"
        return Mismatch("FB0304", message, len(positional), 100)
    given: dict[str, tuple[Expr, int | str]] = {}
    for i, (parameter, arg) in enumerate(zip(positional, args, strict=False)):
        given[parameter.name] = (arg, i)
    known = {p.name for p in parameters}
    for name, arg in kwargs.items():
        if name not in known:
            return Mismatch("FB0305", f"no argument is called '{name}'", name, 50)
        if name in given:
            return Mismatch("FB0304", f"argument '{name}' is given twice", name, 50)
        given[name] = (arg, name)
    return _convert_all(form, given, position)


def _convert_all(
    form: Form, given: Mapping[str, tuple[Expr, int | str]], position: Position
) -> Bound | Mismatch:
    total = 0
    bound: list[Expr] = []
    for parameter in form.schema.args:
        if parameter.name not in given:
            if parameter.default is None:
                message = f"argument '{parameter.name}' is missing"
                return Mismatch("FB0304", message, None, 80)
            bound.append(default_value(parameter, position))
            continue
        arg, index = given[parameter.name]
        distance = rank(type_of(arg), parameter.type)
        if distance is None:
            want, have = show(parameter.type), show(type_of(arg))
            message = f"argument '{parameter.name}': expected {want}, got {have}"
            return Mismatch("FB0306", message, index, 10 - min(len(bound), 9))
        total += distance
        bound.append(coerce(arg, parameter.type))
    return Bound(form, total, tuple(bound))


def call(bound: Bound, position: Position) -> Call:
    """Return the call that a resolution means."""
    return Call(bound.form.name, bound.args, returns_type(bound.form.schema), position)
