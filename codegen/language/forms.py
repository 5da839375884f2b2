"""The dispatcher entries of one operator: itself, number overloads, in-place and out variants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from codegen.model import (
    Alias,
    Argument,
    BaseType,
    Form,
    FormKind,
    ListType,
    OperatorName,
    OptionalType,
    Return,
    Schema,
    Type,
)

TENSOR = BaseType("Tensor")
SCALAR = BaseType("Scalar")


def writes_self(schema: Schema) -> bool:
    """Whether the schema itself is in-place."""
    return schema.name.inplace


def is_tensor(type_: Type) -> bool:
    """Whether an argument of this type is a tensor that may be given as a number."""
    return type_ in (TENSOR, OptionalType(TENSOR))


def derive(
    schema: Schema,
    variants: Sequence[str],
    scalars: Sequence[tuple[str, ...]],
    out_taken: bool = False,
) -> Iterator[Form]:
    """Yield the declared form first, then number overloads, in-place forms and out forms.

    `out_taken`: another operator of the same base name, without overload, has the form `.out`.
    """
    function, method = "function" in variants, "method" in variants
    if writes_self(schema):
        yield Form(schema, FormKind.INPLACE, (), function, method)
        for numbers in scalars:
            yield Form(with_numbers(schema, numbers), FormKind.INPLACE, numbers, function, method)
        return
    functional = [Form(schema, FormKind.FUNCTIONAL, (), function, method)]
    for numbers in scalars:
        on_self = method and "self" not in numbers
        variant = with_numbers(schema, numbers)
        if any(variant.name == form.schema.name for form in functional):
            variant = replace(variant, name=replace(variant.name, overload=f"Scalar_{numbers[0]}"))
        functional.append(Form(variant, FormKind.FUNCTIONAL, numbers, function, on_self))
    yield from functional
    if "inplace" in variants or "inplace_function" in variants:
        unary = "inplace_function" in variants or sum(arg.type == TENSOR for arg in schema.args) == 1
        for form in functional:
            if "self" not in form.numbers:
                inplace = inplace_schema(form.schema)
                yield Form(inplace, FormKind.INPLACE, form.numbers, unary and function, True)
    if "out" in variants:
        for form in functional:
            yield Form(out_schema(form.schema, out_taken), FormKind.OUT, form.numbers, function, False)


def with_numbers(schema: Schema, numbers: Sequence[str]) -> Schema:
    """Make Scalars of the named Tensor arguments."""
    args = tuple(_as_number(a) if a.name in numbers else a for a in schema.args)
    overload = _number_overload(schema.name.overload, numbers)
    return Schema(replace(schema.name, overload=overload), args, schema.returns)


def _as_number(arg: Argument) -> Argument:
    optional = isinstance(arg.type, OptionalType)
    return replace(arg, type=OptionalType(SCALAR) if optional else SCALAR, alias=None)


def _number_overload(overload: str, numbers: Sequence[str]) -> str:
    suffix = "Scalar"
    if tuple(numbers) == ("self",):
        suffix = "ScalarSelf"
    elif len(numbers) > 1:
        suffix = "Scalar_" + "_".join(numbers)
    return suffix if overload in ("", "Tensor") else f"{overload}_{suffix}"


def inplace_schema(schema: Schema) -> Schema:
    """`add.Tensor` -> `add_.Tensor(Tensor(a!) self, ...) -> Tensor(a!)`."""
    written = Alias(("a",), (), True)
    args = tuple(replace(a, alias=written) if a.name == "self" else a for a in schema.args)
    name = OperatorName(schema.name.base, schema.name.overload, True)
    return Schema(name, args, (Return(None, TENSOR, written),))


def out_schema(schema: Schema, out_taken: bool = False) -> Schema:
    """`topk` -> `topk.out(..., *, Tensor(a!) values, Tensor(b!) indices) -> (...)`."""
    overload = schema.name.overload
    plain = ("",) if out_taken else ("", "Tensor")
    out_name = "out" if overload in plain else f"{overload}_out"
    marked = [a for a in schema.args if a.alias is not None and a.alias.is_write]
    outs: list[Argument] = []
    returns: list[Return] = []
    for i, result in enumerate(schema.returns):
        alias = Alias((chr(ord("a") + i + len(marked)),), (), True)
        if isinstance(result.type, ListType):  # the list is the caller's: nothing is returned
            outs.append(Argument("out", result.type, None, alias, kwarg_only=True, is_out=True))
            continue
        arg = "out" if len(schema.returns) == 1 else result.name or f"out{i}"
        outs.append(Argument(arg, result.type, None, alias, kwarg_only=True, is_out=True))
        returns.append(Return(result.name, result.type, alias))
    name = replace(schema.name, overload=out_name)
    args = tuple(a if a.alias is None or a.alias.is_write else replace(a, alias=None) for a in schema.args)
    return Schema(name, (*args, *outs), tuple(returns))


def can_inplace(schema: Schema) -> bool:
    """Whether an in-place form makes sense: it takes a Tensor self and returns one Tensor."""
    has_self = any(a.name == "self" and a.type == TENSOR for a in schema.args)
    return has_self and [r.type for r in schema.returns] == [TENSOR]


def can_out(schema: Schema) -> bool:
    """Whether an out form makes sense: it returns fresh Tensors only, or one list of them."""
    types = [r.type for r in schema.returns]
    fresh = bool(types) and all(r.alias is None for r in schema.returns)
    return fresh and (types == [ListType(TENSOR)] or all(t == TENSOR for t in types))


def tensor_args(schema: Schema) -> tuple[Argument, ...]:
    """Return the arguments that hold tensors, alone or in lists, without outputs."""
    return tuple(a for a in schema.args if _holds_tensor(a.type) and not a.is_out)


def _holds_tensor(type_: Type) -> bool:
    if isinstance(type_, OptionalType | ListType):
        return _holds_tensor(type_.elem)
    return type_ == TENSOR


def result_names(returns: tuple[Return, ...]) -> tuple[str, ...]:
    """Return how rules call the results."""
    return tuple(r.name or (f"result{i}" if len(returns) > 1 else "result") for i, r in enumerate(returns))


def takes_list(schema: Schema, name: str) -> bool:
    """Whether an argument is a list, or an optional one."""
    type_ = next(a.type for a in schema.args if a.name == name)
    return isinstance(type_.elem if isinstance(type_, OptionalType) else type_, ListType)
