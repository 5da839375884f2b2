"""Values of the specification's types, mostly fitting, sometimes extreme or of another type."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from hypothesis import strategies as st

from codegen.model import Argument, BaseType, ListType, OptionalType, Type
from codegen.python_types import shown_type

DTYPES = (
    "float32", "float64", "int64", "bool", "complex64", "complex128",
    "bfloat16", "float16", "uint8", "int8", "int16", "int32",
)  # fmt: skip
SIZES = (0, 1, 2, 3, 5)
SMALL = (0, 1, -1, 2, -2, 3, 4, 7)
EXTREME = (2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63), 2**64)
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.5, 2.0, 1e-45, 1e30, math.inf, -math.inf, math.nan)
WORDS = (
    "none",
    "mean",
    "sum",
    "linear",
    "nearest",
    "trunc",
    "floor",
    "tanh",
    "reflect",
    "amax",
    "prod",
    "",
    "é",
)
STRANGE = (None, "x", b"x", [], (), {}, object(), 1j, [None], [[1]], float, flambeau.float32)


def shapes() -> st.SearchStrategy[list[int]]:
    """Up to four dimensions, of which some are empty or 1."""
    return st.lists(st.sampled_from(SIZES), max_size=4)


@st.composite
def tensors(draw: st.DrawFn, shape: list[int] | None = None) -> flambeau.Tensor:
    """A tensor of any dtype, laid out in any way: transposed, strided, expanded, at an offset."""
    shape = list(draw(shapes()) if shape is None else shape)
    dtype = getattr(flambeau, draw(st.sampled_from(DTYPES)))
    layout = draw(st.sampled_from(("plain", "plain", "transposed", "strided", "expanded", "meta")))
    count = math.prod(shape)
    if layout == "meta":
        return flambeau.empty(shape, dtype=dtype, device="meta")
    if layout == "expanded" and shape:
        one = flambeau.tensor([draw(st.sampled_from(SMALL))]).to(dtype)
        return one.reshape([1] * len(shape)).expand(shape)
    step = 2 if layout == "strided" else 1
    numbers = draw(st.lists(st.sampled_from(SMALL), min_size=4, max_size=4))
    values = (numbers * (count * step // 4 + 1))[: count * step]
    result = flambeau.tensor(values, dtype=flambeau.int64).to(dtype)[::step].reshape(shape)
    if dtype.is_floating_point and count and draw(st.integers(0, 4)) == 0:
        result.view(-1)[0] = draw(st.sampled_from(FLOATS)) if result.is_contiguous() else 0.0
    if layout == "transposed" and len(shape) > 1:
        result = result.transpose(0, -1).contiguous().transpose(0, -1)
    wants_grad = dtype.is_floating_point or dtype.is_complex
    return result.requires_grad_() if wants_grad and draw(st.integers(0, 3)) == 0 else result


def integers() -> st.SearchStrategy[int]:
    """Small ones mostly."""
    return st.one_of(st.sampled_from(SMALL), st.sampled_from(SMALL), st.sampled_from(SMALL + EXTREME))


def numbers() -> st.SearchStrategy[Any]:
    """Python numbers of every kind."""
    return st.one_of(integers(), st.sampled_from(FLOATS), st.booleans(), st.just(1 + 2j))


SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "int": integers(),
    "SymInt": integers(),
    "float": st.one_of(st.sampled_from(FLOATS), integers()),
    "bool": st.booleans(),
    "Scalar": numbers(),
    "str": st.sampled_from(WORDS),
    "ScalarType": st.sampled_from([getattr(flambeau, name) for name in DTYPES]),
    "Layout": st.just(flambeau.strided),
    "Device": st.sampled_from(("cpu", "meta", flambeau.device("cpu"), "cuda", "nowhere")),
    "MemoryFormat": st.sampled_from((flambeau.contiguous_format, flambeau.preserve_format)),
    "Generator": st.just(flambeau.default_generator),
}


def of_type(type_: Type, shape: list[int]) -> st.SearchStrategy[Any]:
    """Values that fit a type; tensors mostly share a shape, so that calls get past the first check."""
    if isinstance(type_, OptionalType):
        return st.one_of(st.none(), of_type(type_.elem, shape))
    if isinstance(type_, ListType):
        return st.lists(of_type(type_.elem, shape), max_size=type_.size or 3)
    if type_ == BaseType("Tensor"):
        return st.one_of(tensors(shape), tensors(shape), tensors())
    try:
        return SIMPLE[type_.name]
    except KeyError:
        raise LookupError(f"values of type {shown_type(type_)} are not made yet") from None


@st.composite
def calls(
    draw: st.DrawFn, args: tuple[Argument, ...], named: tuple[str, ...]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of one call; now and then one of them is of a type that does not belong there."""
    shape = draw(shapes())
    strange = draw(st.integers(0, 5 * len(args))) if args else -1
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for i, (arg, name) in enumerate(zip(args, named, strict=True)):
        if arg.default is not None and draw(st.booleans()):
            continue
        value = draw(st.sampled_from(STRANGE) if i == strange else of_type(arg.type, shape))
        if arg.kwarg_only or len(positional) < i:
            keywords[name] = value
        else:
            positional.append(value)
    return positional, keywords
