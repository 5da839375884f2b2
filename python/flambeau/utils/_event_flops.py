"""Floating-point operations of profiled operators, by the formulas of `flop_counter`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.utils.flop_counter import addmm_flop, baddbmm_flop, bmm_flop, conv_flop_count, mm_flop

Shape = Sequence[int]


def _size(value: Any, dims: int) -> list[int]:
    """Return a number for each dimension of an argument that may be one number for all."""
    values = [value] if isinstance(value, int) else list(value)
    return values * dims if len(values) == 1 else values


def _convolution(shapes: Sequence[Shape], values: Sequence[Any]) -> int:
    (x, weight), dims = shapes[:2], len(shapes[0]) - 2
    stride, padding, dilation = (_size(value, dims) for value in values[3:6])
    out = [
        (x[i + 2] + 2 * padding[i] - dilation[i] * (weight[i + 2] - 1) - 1) // stride[i] + 1
        for i in range(dims)
    ]
    return conv_flop_count(x, weight, [x[0], weight[0], *out])


_FORMULAS: dict[str, Callable[[Sequence[Shape], Sequence[Any]], int]] = {
    "aten::mm": lambda shapes, _: mm_flop(shapes[0], shapes[1]),
    "aten::addmm": lambda shapes, _: addmm_flop(*shapes[:3]),
    "aten::_addmm": lambda shapes, _: addmm_flop(*shapes[:3]),
    "aten::bmm": lambda shapes, _: bmm_flop(shapes[0], shapes[1]),
    "aten::baddbmm": lambda shapes, _: baddbmm_flop(*shapes[:3]),
    "aten::conv2d": _convolution,
    "aten::mul": lambda shapes, _: math.prod(shapes[0]),
    "aten::add": lambda shapes, _: math.prod(shapes[0]),
}


def flops_of_event(name: str, shapes: Sequence[Shape], values: Sequence[Any]) -> int:
    """Return the operations of a call; 0 for operators without a formula and arguments it does not fit."""
    formula = _FORMULAS.get(name)
    if formula is None:
        return 0
    try:
        return formula(shapes, values)
    except (AssertionError, IndexError, TypeError, ValueError):
        return 0  # a padding by name, or a form with other arguments
