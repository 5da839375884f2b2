"""Arithmetic of sizes under PyTorch's names for it.

Symbolic numbers (`SymInt` and others) have a method for each function, such as ``__sym_max__``.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum"]


def _asked(name: str, *numbers: Any) -> Any:
    """Return the result of the first symbolic number's method; NotImplemented without such a number."""
    for i, number in enumerate(numbers):
        method = getattr(number, f"__{name}__", None)
        if method is not None:
            return method(*numbers[:i], *numbers[i + 1 :])
    return NotImplemented


def sym_int(a: Any) -> Any:
    """Return `a` truncated to an int."""
    found = _asked("sym_int", a)
    return found if found is not NotImplemented else math.trunc(a)


def sym_float(a: Any) -> Any:
    """Return `a` as a float."""
    found = _asked("sym_float", a)
    return found if found is not NotImplemented else float(a)


def sym_not(a: Any) -> Any:
    """Return whether `a` is false."""
    found = _asked("sym_not", a)
    return found if found is not NotImplemented else not a


def sym_max(a: Any, b: Any) -> Any:
    """Return the larger number; a float if either is one."""
    found = _asked("sym_max", a, b)
    if found is not NotImplemented:
        return found
    found = max(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller number; a float if either is one."""
    found = _asked("sym_min", a, b)
    if found is not NotImplemented:
        return found
    found = min(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_sqrt(a: Any) -> Any:
    """Return the square root."""
    found = _asked("sym_sqrt", a)
    return found if found is not NotImplemented else math.sqrt(a)


def sym_sum(*args: Any) -> Any:
    """Return the sum of numbers, or of one list of them."""
    return sum(args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """Return `t` if `b`, else `f`, which is of the same type."""
    choose = getattr(b, "__sym_ite__", None)
    if choose is not None:
        return choose(t, f)
    if not isinstance(b, bool) or type(t) is not type(f):
        raise AssertionError(f"sym_ite: expected a bool and two values of one type, got {b!r}, {t!r}, {f!r}")
    return t if b else f
