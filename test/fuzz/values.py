"""Values of the specification's types, mostly fitting, sometimes extreme or of another type."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flambeau
from hypothesis import strategies as st

from codegen.model import Argument, BaseType, ListType, OptionalType, Type
from codegen.python_types import shown_type

DTYPES = (
    "float32", "float64", "int64", "bool", "complex64", "complex128",
    "bfloat16", "float16", "uint8", "int8", "int16", "int32", "uint16", "uint32", "uint64", "complex32",
)  # fmt: skip
SIZES = (0, 1, 2, 3, 5)
SMALL = (0, 1, -1, 2, -2, 3, 4, 7)
EXTREME = (2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63), 2**64)
LAYOUTS = ("plain", "plain", "plain", "transposed", "strided", "expanded", "channels last", "meta")
CHANNELS_LAST = {4: flambeau.channels_last, 5: flambeau.channels_last_3d}
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.5, 2.0, 1e-45, 1e30, math.inf, -math.inf, math.nan)
WORDS = (
    "none", "mean", "sum", "linear", "nearest", "trunc", "floor", "tanh", "amax", "amin", "prod",
    "reflect", "replicate", "circular", "cubic", "fro", "nuc", "ortho", "forward", "backward", "reduced",
    "complete", "ij", "left", "right", "L", "U", "higher", "", "é",
)  # fmt: skip
FLOATING = ("float32", "float64", "float32", "float64", "bfloat16", "float16", "complex64", "complex128")
STRANGE = (None, "x", b"x", [], (), {}, object(), 1j, [None], [[1]], float, flambeau.float32)


def shapes() -> st.SearchStrategy[list[int]]:
    """Up to five dimensions, of which some are empty or 1; every other one is of a few equal dimensions."""
    uneven = st.lists(st.sampled_from(SIZES), max_size=4)
    even = st.builds(lambda n, dims: [n] * dims, st.sampled_from((1, 2, 3, 3, 4)), st.integers(0, 5))
    return st.one_of(uneven, even)


@st.composite
def tensors(
    draw: st.DrawFn, shape: list[int] | None = None, name: str | None = None, values: tuple[int, ...] = SMALL
) -> flambeau.Tensor:
    """A tensor of any dtype or the one named, in any layout: transposed, strided, channels last, expanded."""
    shape = list(draw(shapes()) if shape is None else shape)
    dtype = getattr(flambeau, name or draw(st.sampled_from(DTYPES)))
    layout = draw(st.sampled_from(LAYOUTS))
    count = math.prod(shape)
    if layout == "meta":
        return flambeau.empty(shape, dtype=dtype, device="meta")
    if layout == "expanded" and shape:
        one = flambeau.tensor([draw(st.sampled_from(values))]).to(dtype)
        return one.reshape([1] * len(shape)).expand(shape)
    step = 2 if layout == "strided" else 1
    numbers = draw(st.lists(st.sampled_from(values), min_size=5, max_size=5))
    elements = (numbers * (count * step // 5 + 1))[: count * step]
    result = flambeau.tensor(elements, dtype=flambeau.int64).to(dtype)[::step].reshape(shape)
    if dtype.is_floating_point and count and draw(st.integers(0, 4)) == 0:
        result.view(-1)[0] = draw(st.sampled_from(FLOATS)) if result.is_contiguous() else 0.0
    if layout == "transposed" and len(shape) > 1:
        result = result.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "channels last" and len(shape) in CHANNELS_LAST:
        result = result.contiguous(memory_format=CHANNELS_LAST[len(shape)])
    wants_grad = dtype.is_floating_point or dtype.is_complex
    return result.requires_grad_() if wants_grad and draw(st.integers(0, 3)) == 0 else result


def integers() -> st.SearchStrategy[int]:
    """Small ones mostly."""
    return st.one_of(st.sampled_from((1, 2, 3)), st.sampled_from(SMALL), st.sampled_from(SMALL + EXTREME))


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
    "Device": st.sampled_from(("cpu", "cpu", flambeau.device("cpu"), "meta", "cuda", "nowhere")),
    "MemoryFormat": st.sampled_from(
        (flambeau.contiguous_format, flambeau.preserve_format, *CHANNELS_LAST.values())
    ),
    "Generator": st.just(flambeau.default_generator),
}


@dataclass(frozen=True)
class Fitting:
    """What the arguments of one call have in common, so that calls get past the first checks."""

    shape: list[int]
    dtype: str

    def shapes(self) -> st.SearchStrategy[list[int]]:
        """The call's shape mostly, a part of it, any other."""
        part = st.sampled_from(
            (self.shape[:1], self.shape[-1:], self.shape[:-1], self.shape[1:2], self.shape[-2:])
        )
        return st.one_of(st.just(self.shape), st.just(self.shape), st.just(self.shape), part, shapes())

    def tensors(self, name: str) -> st.SearchStrategy[flambeau.Tensor]:
        """Tensors by what such an argument holds: positions, truth values, numbers."""
        if any(word in name for word in ("index", "indices", "target", "lengths", "offsets")):
            fitting = self.shapes().flatmap(lambda s: tensors(s, "int64", (0, 1, 1, 2, -1)))
        elif "mask" in name or name == "condition":
            fitting = self.shapes().flatmap(lambda s: tensors(s, "bool"))
        else:
            fitting = self.shapes().flatmap(lambda s: tensors(s, self.dtype))
        return st.one_of(fitting, fitting, fitting, self.shapes().flatmap(tensors))

    def integers(self, name: str) -> st.SearchStrategy[int]:
        """Dimensions that exist, mostly, where one is asked for."""
        dims = max(len(self.shape), 1)
        if not name.startswith("dim"):
            return integers()
        return st.one_of(st.integers(-dims, dims - 1), st.integers(-dims, dims - 1), integers())

    def lists(self, type_: ListType, name: str) -> st.SearchStrategy[list[Any]]:
        """As long as the type says, as the shape or its last dimensions."""
        lengths = st.sampled_from((type_.size or 1, len(self.shape), max(len(self.shape) - 2, 0), 1, 2, 3))
        if "size" in name and type_.elem.name in ("int", "SymInt"):
            return st.one_of(
                st.just(self.shape), lengths.flatmap(lambda n: lists_of(st.sampled_from(SIZES), n))
            )
        return lengths.flatmap(lambda n: lists_of(of_type(type_.elem, self, name), n))


def lists_of(elements: st.SearchStrategy[Any], length: int) -> st.SearchStrategy[list[Any]]:
    """Lists of one length."""
    return st.lists(elements, min_size=length, max_size=length)


def of_type(type_: Type, fitting: Fitting, name: str) -> st.SearchStrategy[Any]:
    """Values that fit a type and an argument's name."""
    if isinstance(type_, OptionalType):
        return st.one_of(st.none(), of_type(type_.elem, fitting, name))
    if isinstance(type_, ListType):
        return fitting.lists(type_, name)
    if type_ == BaseType("Tensor"):
        return fitting.tensors(name)
    if type_.name in ("int", "SymInt"):
        return fitting.integers(name)
    try:
        return SIMPLE[type_.name]
    except KeyError:
        raise LookupError(f"values of type {shown_type(type_)} are not made yet") from None


@st.composite
def calls(
    draw: st.DrawFn, args: tuple[Argument, ...], named: tuple[str, ...]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of one call; now and then one of them is of a type that does not belong there."""
    fitting = Fitting(draw(shapes()), draw(st.sampled_from(FLOATING + DTYPES)))
    strange = draw(st.integers(0, 9 * len(args))) if args else -1
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for i, (arg, name) in enumerate(zip(args, named, strict=True)):
        if arg.default is not None and draw(st.booleans()):
            continue
        value = draw(st.sampled_from(STRANGE) if i == strange else of_type(arg.type, fitting, name))
        if arg.kwarg_only or len(positional) < i:
            keywords[name] = value
        else:
            positional.append(value)
    return positional, keywords
