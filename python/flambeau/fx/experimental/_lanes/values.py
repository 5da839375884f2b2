"""Values of a program: symbolic numbers and tensors inside containers, and what must agree between lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau import Size, Tensor
from flambeau._subclasses.fake_tensor import FakeTensor
from flambeau.fx.experimental._sizes.numbers import SymBool, SymFloat, SymInt

SYMBOLIC = (SymInt, SymFloat, SymBool)
_COMPARED = (
    bool,
    str,
    complex,
    type(None),
    flambeau.dtype,
    flambeau.device,
    flambeau.layout,
    flambeau.memory_format,
)


@dataclass(frozen=True, slots=True)
class Ref:
    """The place of a tensor with symbolic sizes in the arguments of a call.

    Args:
        handle: the number of the tensor.
    """

    handle: int


class LaneFunction:
    """A function that a call returned, such as that of `func.vjp`; it calls the function of each lane.

    Args:
        program: the program.
        handle: the number of the functions there.
    """

    def __init__(self, program: Any, handle: int) -> None:
        self.program, self.handle = program, handle

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function of each lane."""
        return self.program.call(_called, (self, *args), kwargs)


def _called(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """Return a value whose tensors and symbolic numbers, also inside containers and slices, are replaced."""
    if isinstance(value, Tensor | SymInt | SymFloat | SymBool | Ref | LaneFunction):
        return change(value)
    kind = type(value)
    if kind is list or kind is tuple or kind is Size:
        items = [mapped(change, item) for item in value]
        return items if kind is list else symbolic_size(items) if kind is Size else tuple(items)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*[mapped(change, item) for item in value])
    if isinstance(value, tuple):  # the results of operators, which are built from one sequence
        return kind([mapped(change, item) for item in value])
    if kind is dict:
        return {key: mapped(change, item) for key, item in value.items()}
    if kind is slice:
        return slice(*[mapped(change, part) for part in (value.start, value.stop, value.step)])
    return value


def leaves(value: Any) -> Iterator[Any]:
    """Yield the tensors and symbolic numbers of a value."""
    found: list[Any] = []

    def note(leaf: Any) -> Any:
        found.append(leaf)
        return leaf

    mapped(note, value)
    return iter(found)


def plain_ints(value: Any) -> Iterator[int]:
    """Yield the Python integers of a value."""
    if type(value) is int:
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from plain_ints(item)
    elif isinstance(value, slice):
        yield from plain_ints((value.start, value.stop, value.step))
    elif isinstance(value, dict):
        yield from plain_ints(list(value.values()))


def plain_sizes(tensor: Any) -> list[int]:
    """Return the sizes of a tensor with constant sizes; an empty list for others."""
    return [n for n in tensor.shape if type(n) is int]


class SymbolicSize(Size):
    """Sizes that may be symbolic numbers."""

    def numel(self) -> Any:
        """Return the product of the sizes."""
        product: Any = 1
        for n in self:
            product = product * n
        return product


def symbolic_size(numbers: Any) -> Any:
    """Return a `Size` of ints and symbolic numbers."""
    return tuple.__new__(SymbolicSize, tuple(numbers))


def structure(value: Any) -> Any:
    """Return what must agree between lanes: everything except numbers, sizes, strides and elements.

    Whether a float is NaN must agree, because no expression of sizes gives NaN for some of them.
    """
    kind = type(value)
    if isinstance(value, Tensor):
        traits = (value.dtype, value.device, value.layout, value.dim(), value.requires_grad, value.is_leaf)
        return (isinstance(value, FakeTensor), value._is_view(), *traits)
    if kind is int or kind is float:
        return kind, value == value
    if isinstance(value, list | tuple):
        return kind, tuple(map(structure, value))
    if isinstance(value, dict):
        return tuple((key, structure(item)) for key, item in value.items())
    if kind is slice:
        return structure((value.start, value.stop, value.step))
    return value if isinstance(value, _COMPARED) else kind
