"""Masks of causal attention over sequences of different lengths."""

from __future__ import annotations

import flambeau
from flambeau import Tensor


def _causal(size: tuple[int, ...], shift: int) -> Tensor:
    if len(size) != 2:
        raise RuntimeError(f"causal masks need 2 sizes, of queries and of keys, got {size}")
    return flambeau.ones(size, dtype=flambeau.bool).tril(shift)


def causal_upper_left(*size: int) -> Tensor:
    """The mask in which query i sees the keys up to i: the diagonal begins at the upper left.

    Args:
        *size: number of queries, number of keys.
    """
    return _causal(size, 0)


def causal_lower_right(*size: int) -> Tensor:
    """The mask in which the last query sees all keys: the diagonal ends at the lower right.

    Args:
        *size: number of queries, number of keys.
    """
    return _causal(size, size[1] - size[0] if len(size) == 2 else 0)


__all__ = ["causal_lower_right", "causal_upper_left"]
