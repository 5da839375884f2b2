"""Masks of causal attention over sequences of different lengths."""

from __future__ import annotations

import flambeau
from flambeau import Tensor


def _causal(size: tuple[int, ...], shift: int) -> Tensor:
    if len(size) != 2:
        raise RuntimeError(
            "causal_lower_right, causal_upper_left: causal masks need the number of queries and of "
            f"keys; pass 2 sizes, not {size}"
        )
    return flambeau.ones(size, dtype=flambeau.bool).tril(shift)


def causal_upper_left(*size: int) -> Tensor:
    """Make the mask in which query i sees the keys up to i: its diagonal begins at the upper left.

    Args:
        *size: the numbers of queries and of keys.
    Returns: a bool mask, True where a query sees a key.
    Raises: RuntimeError for another count of sizes.

    Example:
        >>> flambeau.nn.attention.bias.causal_upper_left(2, 3)
        tensor([[ True, False, False],
                [ True,  True, False]])
    """
    return _causal(size, 0)


def causal_lower_right(*size: int) -> Tensor:
    """Make the mask in which the last query sees all keys: its diagonal ends at the lower right.

    Args:
        *size: the numbers of queries and of keys.
    Returns: a bool mask, True where a query sees a key.
    Raises: RuntimeError for another count of sizes.

    Example:
        >>> flambeau.nn.attention.bias.causal_lower_right(2, 3)
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """
    return _causal(size, size[1] - size[0] if len(size) == 2 else 0)


__all__ = ["causal_lower_right", "causal_upper_left"]
