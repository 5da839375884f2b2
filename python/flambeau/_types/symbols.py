"""Arithmetic of sizes under PyTorch's names for it; sizes are plain numbers here."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum"]


def sym_int(a: Any) -> int:
    """Return `a` truncated to an int."""
    return math.trunc(a)


def sym_float(a: Any) -> float:
    """Return `a` as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Return whether `a` is false."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """Return the larger number; a float if either is one."""
    found = max(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller number; a float if either is one."""
    found = min(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_sqrt(a: Any) -> float:
    """Return the square root."""
    return math.sqrt(a)


def sym_sum(*args: Any) -> Any:
    """Return the sum of numbers, or of one list of them."""
    return sum(args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """Return `t` if `b`, else `f`, which is of the same type."""
    if not isinstance(b, bool) or type(t) is not type(f):
        raise AssertionError(f"sym_ite: expected a bool and two values of one type, got {b!r}, {t!r}, {f!r}")
    return t if b else f
