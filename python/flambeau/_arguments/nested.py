"""Tensors inside lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau._C import Tensor


def tensors_in(value: Any, levels: int | None = None) -> Iterator[Tensor]:
    """Yield the tensors of a value, in order.

    Args:
        value: a tensor, or containers of tensors and other values.
        levels: how many containers deep to look. Default: all.
    """
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | list | tuple) and levels != 0:
        inner = None if levels is None else levels - 1
        for one in list(value.values() if isinstance(value, dict) else value):
            yield from tensors_in(one, inner)
