"""Values of the specification's types, mostly fitting, sometimes extreme or of another type.

How an argument is drawn is decided once per signature, so that a call costs little more than its tensors.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import flambeau
import numpy

from codegen.deriving.signatures import Signature, is_factory, python_name
from codegen.model import Argument, BaseType, ListType, OptionalType, Type
from codegen.writing.python_types import shown_type

from .tensors import DTYPES, FLOATS, SIZES, SMALL, related, shape_of, tensor_of, with_history

EXTREME = (2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63), 2**64)
WORDS = (
    "none", "mean", "sum", "linear", "nearest", "trunc", "floor", "tanh", "amax", "amin", "prod",
    "reflect", "replicate", "circular", "cubic", "fro", "nuc", "ortho", "forward", "backward", "reduced",
    "complete", "ij", "left", "right", "L", "U", "higher", "", "é",
)  # fmt: skip
FITTING = (
    "float32", "float64", "float32", "float64", "bfloat16", "float16", "complex64", "complex128",
)  # fmt: skip
STRANGE = (
    None, "x", b"x", [], (), {}, object(), 1j, [None], [[1]], float, flambeau.float32,
    numpy.float32(2), numpy.int64(1), numpy.ones((2, 3)), flambeau.tensor(1), range(2), ...,
)  # fmt: skip
LISTS = (ListType(BaseType("Tensor"), None), ListType(OptionalType(BaseType("Tensor")), None))
DEGREE = "n"  # of a polynomial, whose time is proportional to it
T = TypeVar("T")


class Call:
    """The arguments of one call: the same text gives the same ones. Most agree in shape and dtype."""

    def __init__(self, text: str) -> None:
        self.random = random.Random(text).random
        self.is_plain = self.one_in(2)  # a call that is transformed may loop over a dimension
        self.made: list[flambeau.Tensor] = []
        self.agree(False)

    def agree(self, may_be_huge: bool) -> None:
        """Draw what most arguments have in common. Huge sizes are for calls that loop over no dimension."""
        self.may_be_huge = may_be_huge and self.is_plain
        self.shape = shape_of(self)
        self.dtype = self.one_of(FITTING + DTYPES)
        self.on_meta = self.one_in(12)

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        return int(self.random() * n)

    def one_of(self, values: Sequence[T]) -> T:
        """Any of them."""
        return values[int(self.random() * len(values))]

    def one_in(self, n: int) -> bool:
        """True once in n times."""
        return self.random() * n < 1

    def fitting_shape(self) -> list[int]:
        """The call's shape mostly, a part of it, any other."""
        drawn = self.below(20)
        if drawn < 14:
            return self.shape
        if drawn < 17:
            whole = self.shape
            return self.one_of((whole[:1], whole[-1:], whole[:-1], whole[1:2], whole[-2:]))
        return shape_of(self)

    def tensor(self, dtype: str, kind: str = "numbers") -> flambeau.Tensor:
        """A new tensor that mostly fits, or one that shares memory with another argument."""
        if self.made and self.one_in(10):
            result = related(self, self.one_of(self.made))
        else:
            dtype = self.one_of(DTYPES) if self.one_in(12) else dtype
            result = tensor_of(self, self.fitting_shape(), dtype, kind)
            result = with_history(self, result)
        self.made.append(result)
        return result


Maker = Callable[[Call], Any]


def integer(call: Call) -> int:
    """A small one mostly."""
    return call.one_of(call.one_of(((1, 2, 3), SMALL, SMALL + EXTREME)))


def number(call: Call) -> Any:
    """A Python number of any kind."""
    drawn = call.below(8)
    if drawn < 4:
        return integer(call)
    return call.one_of(FLOATS) if drawn < 6 else call.one_of((True, False, 1 + 2j, 0.25))


def any_of(*values: Any) -> Maker:
    """Any of the values."""
    return lambda call: call.one_of(values)


SIMPLE: dict[str, Maker] = {
    "int": integer,
    "SymInt": integer,
    "float": lambda call: call.one_of(FLOATS) if call.one_in(2) else integer(call),
    "bool": any_of(True, False),
    "Scalar": number,
    "str": any_of(*WORDS),
    "ScalarType": any_of(*(getattr(flambeau, name) for name in DTYPES)),
    "Layout": any_of(flambeau.strided),
    "Device": any_of("cpu", "cpu", flambeau.device("cpu"), "meta", "cuda", "nowhere"),
    "MemoryFormat": any_of(
        flambeau.contiguous_format,
        flambeau.preserve_format,
        flambeau.channels_last,
        flambeau.channels_last_3d,
    ),
    "Generator": any_of(flambeau.default_generator),
}


def tensor_maker(name: str) -> Maker:
    """Tensors by what such an argument holds: positions, truth values, numbers."""
    if any(word in name for word in ("index", "indices", "target", "lengths", "offsets")):
        return lambda call: call.tensor("int64", "positions")
    if name == DEGREE:
        return lambda call: call.tensor(call.dtype, "degrees")
    if "mask" in name or name == "condition":
        return lambda call: call.tensor("bool")
    return lambda call: call.tensor(call.dtype)


def integer_maker(name: str) -> Maker:
    """Dimensions that exist, mostly, where one is asked for."""
    if not name.startswith("dim"):
        return integer

    def dimension(call: Call) -> int:
        dims = max(len(call.shape), 1)
        return integer(call) if call.one_in(4) else call.below(2 * dims) - dims

    return dimension


def list_maker(type_: ListType, name: str) -> Maker:
    """As long as the type says, as the shape or its last dimensions."""
    element = maker(type_.elem, name)
    is_size = "size" in name and type_.elem.name in ("int", "SymInt")

    def drawn(call: Call) -> list[Any]:
        if is_size and call.one_in(2):
            return list(call.shape)
        dims = len(call.shape)
        length = call.one_of((type_.size or 1, dims, max(dims - 2, 0), 1, 2, 3))
        return [call.one_of(SIZES) if is_size else element(call) for _ in range(length)]

    return drawn


def maker(type_: Type, name: str) -> Maker:
    """How values are drawn that fit a type and an argument's name."""
    if isinstance(type_, OptionalType):
        inner = maker(type_.elem, name)
        return lambda call: None if call.one_in(2) else inner(call)
    if isinstance(type_, ListType):
        return list_maker(type_, name)
    if type_ == BaseType("Tensor"):
        return tensor_maker(name)
    if type_.name in ("int", "SymInt"):
        return integer_maker(name)
    if name == DEGREE and type_.name == "Scalar":
        return any_of(*SMALL)
    try:
        return SIMPLE[type_.name]
    except KeyError:
        raise LookupError(f"values of type {shown_type(type_)} are not made yet") from None


def _out(args: tuple[Argument, ...]) -> Maker | None:
    """What is written to: of the call's shape or any other, or what shares memory with an argument."""
    if not args:
        return None

    def one(call: Call) -> flambeau.Tensor:
        if call.made and call.one_in(5):
            return related(call, call.one_of(call.made))
        dtype = call.one_of(DTYPES) if call.one_in(8) else call.dtype
        return tensor_of(call, [0] if call.one_in(3) else call.fitting_shape(), dtype)

    return one if len(args) == 1 else lambda call: tuple(one(call) for _ in args)


@dataclass(frozen=True)
class Plan:
    """How the arguments of one signature are drawn: name, maker, whether it may be left out, keyword only."""

    args: tuple[tuple[str, Maker, bool, bool], ...]
    out: Maker | None
    factory: bool
    has_lists: bool  # of tensors, one per entry of a dimension perhaps

    @classmethod
    def of(cls, signature: Signature, method: bool) -> Plan:
        """The signature's plan."""
        args = tuple(
            (python_name(a, method), maker(a.type, a.name), a.default is not None, a.kwarg_only)
            for a in signature.args
        )
        schema = signature.form.schema
        lists = any(part.type in LISTS for part in (*schema.args, *schema.returns))
        factory = not method and is_factory(signature.form)
        return cls(args, _out(signature.out_args), factory, lists)

    def draw(self, call: Call) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of one call; now and then one of them is of a type that does not belong there."""
        call.agree(not self.has_lists)
        strange = call.below(10 * len(self.args)) if self.args else -1
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for i, (name, make, optional, by_keyword) in enumerate(self.args):
            if optional and call.one_in(2):
                continue
            value = call.one_of(STRANGE) if i == strange else make(call)
            if by_keyword or len(positional) < i:
                keywords[name] = value
            else:
                positional.append(value)
        if self.out is not None and call.one_in(6):
            keywords["out"] = self.out(call)
        if self.factory and call.one_in(8):
            keywords["requires_grad"] = call.one_of((True, False))
        return positional, keywords
