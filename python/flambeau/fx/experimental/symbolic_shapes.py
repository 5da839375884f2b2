"""The interface of symbolic sizes. Sizes are always numbers here, so every query has a definite result."""

from __future__ import annotations

from enum import Enum
from typing import Any


class SymInt:
    """The class of unknown sizes, for `isinstance`. It has no instances yet."""

    def __init__(self, *_: Any) -> None:
        raise NotImplementedError(
            "SymInt: flambeau does not trace symbolic sizes at the dispatcher; use concrete sizes"
        )


class SymFloat(SymInt):
    """The class of floats that depend on unknown sizes. It has no instances yet."""


class SymBool(SymInt):
    """The class of bools that depend on unknown sizes. It has no instances yet."""


class ShapeEnv:
    """The relations between symbolic sizes. The class has no instances yet."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError(
            "ShapeEnv: flambeau does not trace symbolic sizes at the dispatcher; use concrete sizes"
        )


class DimDynamic(Enum):
    """How a dimension would be treated."""

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    SIZE_LIKE_UNBACKED = 3
    INFER_STRIDE = 4
    OBLIVIOUS_SIZE = 5


class ConstraintViolationError(RuntimeError):
    """A size violates a constraint that the program declared."""


class GuardOnDataDependentSymNode(RuntimeError):
    """A program used the value of a size that depends on data."""


class SymbolicContext:
    """How a tensor's sizes would become symbols."""


class StatelessSymbolicContext(SymbolicContext):
    """How a tensor's sizes would become symbols, without memory of earlier ones."""


def is_symbolic(val: Any) -> bool:
    """Return False: no number is symbolic yet."""
    return isinstance(val, SymInt)


def is_concrete_int(a: Any) -> bool:
    """Return True: the value of each integer is known."""
    return isinstance(a, int)


is_concrete_bool = is_concrete_float = lambda a: True


def has_static_value(a: Any) -> bool:
    """Return True: the value of each number is known."""
    return True


def has_symbolic_sizes_strides(elem: Any) -> bool:
    """Return False: no tensor has symbolic sizes yet."""
    return False


has_free_symbols = has_free_unbacked_symbols = has_symbolic_sizes_strides


def free_symbols(val: Any) -> set[Any]:
    """Return an empty set: no value contains symbols yet."""
    return set()


free_unbacked_symbols = free_symbols


def is_nested_int(s: Any) -> bool:
    """Return False: no number is the length of a ragged dimension."""
    return False


def guard_int(a: Any) -> int:
    """Return an integer."""
    return int(a)


def guard_float(a: Any) -> float:
    """Return a float."""
    return float(a)


def guard_bool(a: Any) -> bool:
    """Return a bool."""
    return bool(a)


def guard_scalar(a: Any) -> Any:
    """Return a number."""
    return a


guard_size_oblivious = guard_or_false = guard_or_true = statically_known_true = guard_bool


def statically_known_false(x: Any) -> bool:
    """Whether a condition is known to be False."""
    return not x


def definitely_true(a: Any) -> bool:
    """Whether a condition is known to be True."""
    return bool(a)


definitely_false = statically_known_false


def sym_and(*values: Any) -> bool:
    """Whether all conditions hold."""
    return all(values)


def sym_or(*values: Any) -> bool:
    """Whether at least one condition holds."""
    return any(values)


def sym_eq(x: Any, y: Any) -> bool:
    """Whether two numbers, or two sequences of them, are equal."""
    if isinstance(x, list | tuple):
        return len(x) == len(y) and all(map(sym_eq, x, y))
    return bool(x == y)


def hint_int(a: Any, fallback: int | None = None) -> int:
    """Return an integer."""
    return int(a)


def constrain_range(a: Any, *, min: Any = None, max: Any = None) -> None:
    """Declare that a size lies in a range; the size is known, so the range is checked.

    Raises: ValueError if the size lies outside the range.
    """
    if (min is not None and a < min) or (max is not None and a > max):
        raise ValueError(f"constrain_range: expected a value in [{min}, {max}], got {a}")


def expect_true(a: Any, skip: int = 0) -> bool:
    """Return whether a condition holds; the caller expects it to."""
    return bool(a)


def canonicalize_bool_expr(expr: Any) -> Any:
    """Return a bool unchanged: it is in normal form."""
    return expr


SymTypes = (SymInt, SymFloat, SymBool)
