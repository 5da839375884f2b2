"""Dimensions as users name them."""

from __future__ import annotations

from collections.abc import Iterable


def wrapped_dims(who: str, dim: int | Iterable[int], ndim: int) -> list[int]:
    """Count dims from the front, each named once; scalars have a dim 0, as in the operators.

    Errors name `who`, the operator that users call.

    Raises: IndexError for a dim out of range, RuntimeError for one that appears twice.
    """
    found: list[int] = []
    n = max(ndim, 1)
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -n <= d < n:
            raise IndexError(
                f"{who}: Dimension out of range: expected one in range of [{-n}, {n - 1}], got {d}"
            )
        if d % n in found:
            raise RuntimeError(f"{who}: dim {d % n} appears multiple times in dim; name each dimension once")
        found.append(d % n)
    return found
