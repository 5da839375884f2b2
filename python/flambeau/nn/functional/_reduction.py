"""How the elements of a loss become its value."""

from __future__ import annotations

import warnings

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def number_of(reduction: str) -> int:
    """Return the operators' number of a reduction's name."""
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is an old name of reduction='mean'", stacklevel=3)
        return 1
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction: expected 'mean', 'none' or 'sum', got {reduction!r}")
    return _REDUCTIONS[reduction]


def named(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return `reduction`, or what PyTorch's two older switches mean where one is given."""
    if size_average is None and reduce is None:
        return reduction
    averaged = True if size_average is None else size_average
    found = ("mean" if averaged else "sum") if reduce is None or reduce else "none"
    warnings.warn(
        f"size_average and reduce are deprecated; use reduction='{found}'",
        stacklevel=3,
    )
    return found
