"""Ways in which a destination can share memory with an input, with another destination or with itself.

Each pattern is a function of the framework (flambeau or PyTorch), so that both run the same statements. It
takes one input and the expected result, and returns what is passed as the input and as the destination, or
None where the pattern does not fit their shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Pair = tuple[Any, Any] | None
POISON = 0xAB  # in every byte that no operator has written: what shows up again was never computed


@dataclass(frozen=True)
class Place:
    """Where a tensor stands among the arguments: under a name, and at a position if that is a list."""

    name: str
    index: int | None = None

    def get(self, arguments: dict[str, Any]) -> Any:
        value = arguments[self.name]
        return value if self.index is None else value[self.index]

    def put(self, arguments: dict[str, Any], tensor: Any) -> dict[str, Any]:
        """The arguments with another tensor here."""
        if self.index is None:
            return arguments | {self.name: tensor}
        items = list(arguments[self.name])
        items[self.index] = tensor
        return arguments | {self.name: items}


def places(arguments: dict[str, Any]) -> Iterator[Place]:
    """All tensors (or arrays) among the arguments."""
    for name, value in arguments.items():
        if hasattr(value, "ndim"):
            yield Place(name)
        elif isinstance(value, list):
            yield from (Place(name, i) for i, v in enumerate(value) if hasattr(v, "ndim"))


def poisoned(fw: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Memory in which every byte is POISON; a bool is then neither 0 nor 1, so it is 0 instead."""
    if dtype == fw.bool:
        return fw.zeros(shape, dtype=dtype)
    width = fw.empty(0, dtype=dtype).element_size()
    count = math.prod(shape)
    return fw.full((count * width,), POISON, dtype=fw.uint8).view(dtype).reshape(shape)


# --- one input, one destination ------------------------------------------------------------------------


def _moved(fw: Any, x: Any, wanted: Any, of_input: int, of_result: int) -> Pair:
    """Both in one buffer, from this element on."""
    ends = of_input + x.numel(), of_result + wanted.numel()
    memory = poisoned(fw, (max(ends),), x.dtype)
    source = memory[of_input : ends[0]].view(tuple(x.shape))
    source.copy_(x)
    return source, memory[of_result : ends[1]].view(tuple(wanted.shape))


def itself(fw: Any, x: Any, wanted: Any) -> Pair:
    """The input, whatever its size: it is the result's, must grow, or must shrink."""
    return x, x


def other_name(fw: Any, x: Any, wanted: Any) -> Pair:
    """The same elements as another tensor."""
    return x, x.detach()


def behind(fw: Any, x: Any, wanted: Any) -> Pair:
    """One element after the input."""
    return _moved(fw, x, wanted, 0, 1) if x.numel() and wanted.numel() else None


def before(fw: Any, x: Any, wanted: Any) -> Pair:
    """One element before the input."""
    return _moved(fw, x, wanted, 1, 0) if x.numel() and wanted.numel() else None


def turned(fw: Any, x: Any, wanted: Any) -> Pair:
    """The transposed input."""
    if x.dim() < 2:
        return None
    out = x.transpose(0, 1)
    return (x, out) if tuple(out.shape) == tuple(wanted.shape) else None


def first_row(fw: Any, x: Any, wanted: Any) -> Pair:
    """A view of the input that must grow to the result's size, beyond the input's end."""
    return (x, x.flatten()[:1]) if x.numel() > 1 and wanted.numel() != 1 else None


def every_other(fw: Any, x: Any, wanted: Any) -> Pair:
    """Every other element of memory whose first half is the input."""
    if x.dim() != 1 or wanted.dim() != 1 or x.numel() < 2 or wanted.numel() < 2:
        return None
    memory = poisoned(fw, (max(x.numel(), 2 * wanted.numel()),), x.dtype)
    source = memory[: x.numel()]
    source.copy_(x)
    return source, memory[: 2 * wanted.numel() : 2]


WITH_INPUT: tuple[Callable[[Any, Any, Any], Pair], ...] = (
    itself, other_name, behind, before, turned, first_row, every_other,
)  # fmt: skip


# --- a destination alone -------------------------------------------------------------------------------


def expanded(fw: Any, wanted: Any) -> Any:
    """All places are one element."""
    if wanted.numel() < 2:
        return None
    return poisoned(fw, (1,) * wanted.dim(), wanted.dtype).expand(tuple(wanted.shape))


def strided(fw: Any, wanted: Any) -> Any:
    """Every other column."""
    if not wanted.dim():
        return None
    return poisoned(fw, (*wanted.shape[:-1], 2 * wanted.shape[-1]), wanted.dtype)[..., ::2]


def dirty(fw: Any, wanted: Any) -> Any:
    """Of the right size and full of poison."""
    return poisoned(fw, tuple(wanted.shape), wanted.dtype)


def too_long(fw: Any, wanted: Any) -> Any:
    """Of another size, full of poison."""
    return poisoned(fw, (wanted.numel() + 3,), wanted.dtype)


def wider(fw: Any, wanted: Any) -> Any:
    """complex128, to which most results can be cast."""
    return poisoned(fw, tuple(wanted.shape), fw.complex128)


def narrower(fw: Any, wanted: Any) -> Any:
    """int8 in place of another integer type."""
    if wanted.is_floating_point() or wanted.is_complex() or wanted.dtype == fw.bool:
        return None
    return poisoned(fw, tuple(wanted.shape), fw.int8)


ALONE: tuple[Callable[[Any, Any], Any], ...] = (expanded, strided, dirty, too_long, wider, narrower)


# --- several destinations ------------------------------------------------------------------------------


def one_memory(fw: Any, wanted: list[Any]) -> list[Any] | None:
    """All results in the same bytes."""
    sizes = [w.numel() * w.element_size() for w in wanted]
    if len(wanted) < 2 or min(sizes) == 0:
        return None
    memory = fw.full((-(-max(sizes) // 16) * 16,), POISON, dtype=fw.uint8)
    return [memory[:size].view(w.dtype).view(tuple(w.shape)) for size, w in zip(sizes, wanted, strict=True)]


def values_of(tensor: Any) -> np.ndarray:
    """A tensor's values as an array; halves as float32."""
    plain = tensor.detach()
    name = str(plain.dtype).rpartition(".")[2]
    if name in ("bfloat16", "float16"):
        plain = plain.float()
    return plain.resolve_conj().resolve_neg().numpy().copy()
