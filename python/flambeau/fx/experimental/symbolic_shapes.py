"""Symbolic sizes: `ShapeEnv`, the classes of symbolic numbers, and questions about them and about conditions.

The functions accept Python numbers too, whose values are known.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import flambeau
from flambeau.fx.experimental._sizes.contexts import (
    DimDynamic,
    StatelessSymbolicContext,
    SymbolicContext,
)
from flambeau.fx.experimental._sizes.errors import (
    ConstraintViolationError,
    GuardOnDataDependentSymNode,
)
from flambeau.fx.experimental._sizes.numbers import SymBool, SymFloat, SymInt
from flambeau.fx.experimental._sizes.shape_env import ShapeEnv, ShapeGuard, ValueRanges
from flambeau.utils import _pytree as pytree

__all__ = [
    "ConstraintViolationError",
    "DimDynamic",
    "GuardOnDataDependentSymNode",
    "ShapeEnv",
    "ShapeGuard",
    "StatelessSymbolicContext",
    "SymBool",
    "SymFloat",
    "SymInt",
    "SymTypes",
    "SymbolicContext",
    "ValueRanges",
]

SymTypes = (SymInt, SymFloat, SymBool)


def is_symbolic(val: Any) -> bool:
    """Return whether a number is an expression with symbols.

    Args:
        val: a number.
    """
    return isinstance(val, SymTypes) and val.node.is_symbolic()


def has_static_value(a: Any) -> bool:
    """Return whether guards and bounds determine the value of a number.

    Args:
        a: a number.
    """
    return not is_symbolic(a) or (isinstance(a, SymBool) and _truth(a) is not None)


def _is_concrete(a: Any) -> bool:
    return not is_symbolic(a)


def is_concrete_int(a: Any) -> bool:
    """Return whether the value of an integer is known.

    Args:
        a: an int or `SymInt`.
    """
    return isinstance(a, int | SymInt) and _is_concrete(a)


def is_concrete_float(a: Any) -> bool:
    """Return whether the value of a floating-point number is known.

    Args:
        a: a float or `SymFloat`.
    """
    return isinstance(a, float | SymFloat) and _is_concrete(a)


def is_concrete_bool(a: Any) -> bool:
    """Return whether the value of a bool is known.

    Args:
        a: a bool or `SymBool`.
    """
    return isinstance(a, bool | SymBool) and _is_concrete(a)


def free_symbols(val: Any) -> set[Any]:
    """Return the symbols in a number, an expression, a tensor's geometry, or containers of them.

    Args:
        val: the value.
    """
    found: set[Any] = set()
    for leaf in pytree.tree_leaves(val):
        if isinstance(leaf, SymTypes):
            found |= leaf.node.expr.free_symbols
        elif isinstance(leaf, flambeau.Tensor):
            found |= free_symbols([*leaf.size(), *leaf.stride(), leaf.storage_offset()])
        else:
            found |= getattr(leaf, "free_symbols", set())
    return found


def free_unbacked_symbols(val: Any) -> set[Any]:
    """Return the symbols in a value that depend on elements of tensors.

    Args:
        val: the value.
    """
    return {s for s in free_symbols(val) if str(s).startswith(("u", "zuf"))}


def has_free_symbols(val: Any) -> bool:
    """Return whether a value contains symbols.

    Args:
        val: the value.
    """
    return bool(free_symbols(val))


def has_free_unbacked_symbols(val: Any) -> bool:
    """Return whether a value contains symbols that depend on elements of tensors.

    Args:
        val: the value.
    """
    return bool(free_unbacked_symbols(val))


def has_symbolic_sizes_strides(elem: Any) -> bool:
    """Return whether the geometry of a tensor contains symbols.

    Args:
        elem: a tensor.
    """
    return has_free_symbols(elem)


def is_nested_int(s: Any) -> bool:
    """Return False: no number is the length of a ragged dimension."""
    return False


def guard_int(a: Any) -> int:
    """Return the value of an integer; record that a symbolic one equals it.

    Args:
        a: an int or `SymInt`.
    """
    return int(a)


def guard_float(a: Any) -> float:
    """Return the value of a number as a float; record that a symbolic one equals it.

    Args:
        a: a float or `SymFloat`.
    """
    return float(a)


def guard_bool(a: Any) -> bool:
    """Return the truth of a condition; record that of a symbolic one.

    Args:
        a: a bool or `SymBool`.
    """
    return bool(a)


def guard_scalar(a: Any) -> Any:
    """Return the value of a number; record that a symbolic one equals it.

    Args:
        a: a number.
    """
    for kind, read in ((SymBool, guard_bool), (SymInt, guard_int), (SymFloat, guard_float)):
        if isinstance(a, kind):
            return read(a)
    return a


def _truth(a: Any) -> bool | None:
    """Return the truth of a condition if no guard is needed to know it."""
    known = a.node.shape_env.static_truth(a.node.expr) if isinstance(a, SymBool) else bool(a)
    return None if known is None else bool(known)


def statically_known_true(x: Any) -> bool:
    """Return whether bounds and earlier conditions prove a condition; no guard is recorded.

    Args:
        x: a bool or `SymBool`.

    Example:
        >>> from flambeau.fx.experimental.symbolic_shapes import ShapeEnv, statically_known_true
        >>> env = ShapeEnv()
        >>> n = env.create_symintnode(env.create_symbol(5, "n"))
        >>> statically_known_true(n > 1), statically_known_true(n > 3)
        (True, False)
    """
    return _truth(x) is True


def statically_known_false(x: Any) -> bool:
    """Return whether bounds and earlier conditions refute a condition; no guard is recorded.

    Args:
        x: a bool or `SymBool`.
    """
    return _truth(x) is False


definitely_true, definitely_false = statically_known_true, statically_known_false


def guard_size_oblivious(expr: Any) -> bool:
    """Return the truth of a condition, where sizes that depend on elements count as at least 2.

    Args:
        expr: a bool or `SymBool`.
    Raises: `GuardOnDataDependentSymNode` if the truth is still unknown.
    """
    return bool(expr.node.guard_size_oblivious("", 0) if isinstance(expr, SymBool) else expr)


def _guard_or(a: Any, otherwise: bool) -> bool:
    if isinstance(a, SymBool) and not a.node.has_hint():
        known = _truth(a)
        return otherwise if known is None else known
    return bool(a)


def guard_or_false(a: Any) -> bool:
    """Return the truth of a condition and record it; False if it depends on elements of tensors.

    Args:
        a: a bool or `SymBool`.
    """
    return _guard_or(a, False)


def guard_or_true(a: Any) -> bool:
    """Return the truth of a condition and record it; True if it depends on elements of tensors.

    Args:
        a: a bool or `SymBool`.
    """
    return _guard_or(a, True)


def sym_and(*values: Any) -> Any:
    """Return whether all conditions hold, as a condition.

    Args:
        *values: bools or `SymBool`.
    """
    return functools.reduce(operator.and_, values, True)


def sym_or(*values: Any) -> Any:
    """Return whether at least one condition holds, as a condition.

    Args:
        *values: bools or `SymBool`.
    """
    return functools.reduce(operator.or_, values, False)


def sym_eq(x: Any, y: Any) -> Any:
    """Return whether two numbers, or two sequences of numbers, are equal, as a condition.

    Args:
        x: a number, list or tuple.
        y: a value to compare it with.
    """
    if isinstance(x, list | tuple):
        return len(x) == len(y) and sym_and(*map(sym_eq, x, y))
    return x == y


def hint_int(a: Any, fallback: int | None = None) -> int:
    """Return the value of an integer for the example sizes; no guard is recorded.

    Args:
        a: an int or `SymInt`.
        fallback: the result for a number that depends on elements of tensors.
    Raises: `GuardOnDataDependentSymNode` for such a number without a fallback.
    """
    return int(a.node.require_hint(fallback) if isinstance(a, SymInt) else a)


def constrain_range(a: Any, *, min: Any = None, max: Any = None) -> None:
    """Declare that a number lies in a range, both ends included.

    Args:
        a: an int, or a `SymInt` that depends on elements of tensors.
        min: the least value; None: no bound.
        max: the greatest value; None: no bound.
    Raises: ValueError if the range is empty or an int lies outside.
    """
    if min is not None and max is not None and min > max:
        raise ValueError(f"constrain_range: expected min <= max, got min={min} and max={max}")
    if isinstance(a, SymInt):
        for condition in ([] if min is None else [a >= min]) + ([] if max is None else [a <= max]):
            expect_true(condition)
    elif (min is not None and a < min) or (max is not None and a > max):
        raise ValueError(f"constrain_range: expected a value in [{min}, {max}], got {a}")


def expect_true(a: Any, skip: int = 0) -> bool:
    """Return the truth of a condition that the program expects to hold.

    A condition on sizes of inputs becomes a guard. One that depends on elements of tensors is noted as a
    check for the graph, counts as true, and is known from then on.

    Args:
        a: a bool or `SymBool`.
        skip: accepted.
    """
    return bool(a.node.expect_true("", 0) if isinstance(a, SymBool) else a)


def canonicalize_bool_expr(expr: Any) -> Any:
    """Return a condition with its number on the right.

    Args:
        expr: an expression of sympy; other objects are returned unchanged.
    """
    return expr.reversed if getattr(expr, "is_Relational", False) and expr.lhs.is_number else expr
