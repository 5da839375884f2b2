"""`SymInt`, `SymFloat` and `SymBool`: numbers of a traced program that are expressions in sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _Symbolic:
    """The part of symbolic numbers that does not depend on their type.

    Args:
        node: holds the expression and the environment that knows its symbols.
    """

    __slots__ = ("node",)

    def __init__(self, node: Any) -> None:
        self.node = node

    def __repr__(self) -> str:
        return str(self.node)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __bool__(self) -> bool:
        return bool(self.node.guard_bool("", 0))


class _Number(_Symbolic):
    __slots__ = ()

    def __int__(self) -> int:
        return int(self.node.guard_int("", 0))

    def __float__(self) -> float:
        return float(self.node.guard_float("", 0))

    def __pos__(self) -> Any:
        return self

    def __complex__(self) -> complex:
        return complex(float(self))


class SymInt(_Number):
    """An integer that is an expression in the sizes of inputs.

    Arithmetic gives further expressions. A use that needs the truth of a condition (``if``, ``while``,
    ``bool()``) evaluates it for the example sizes and records it as a guard; ``int()`` records that the
    number equals its example value.

    Args:
        node: a `SymNode`, which holds the expression.
    Raises: TypeError on hashing; `GuardOnDataDependentSymNode` where a value is needed of a number that
        depends on the elements of a tensor.

    Example:
        >>> from flambeau.fx.experimental.symbolic_shapes import ShapeEnv
        >>> env = ShapeEnv()
        >>> n = env.create_symintnode(env.create_symbol(5, "n"), hint=5)
        >>> 2 * n + 1
        2*s0 + 1
        >>> n > 3, bool(n > 3), env.format_guards()
        (s0 > 3, True, ' - s0 > 3')
    """

    __slots__ = ()

    def __hash__(self) -> int:
        raise TypeError("unhashable type: SymInt")

    def __index__(self) -> int:
        return int(self)

    def __round__(self, digits: Any = None) -> Any:
        return self

    __floor__ = __ceil__ = __trunc__ = lambda self: self

    def is_integer(self) -> bool:
        """Return True."""
        return True

    def conjugate(self) -> SymInt:
        """Return the number itself."""
        return self

    def as_integer_ratio(self) -> tuple[SymInt, int]:
        """Return the number and 1."""
        return self, 1

    def __lshift__(self, other: Any) -> Any:
        return self * _power_of_two(other) if isinstance(other, int | SymInt) else NotImplemented

    def __rshift__(self, other: Any) -> Any:
        return self // _power_of_two(other) if isinstance(other, int | SymInt) else NotImplemented

    def __rlshift__(self, other: Any) -> Any:
        return other * _power_of_two(self)

    def __rrshift__(self, other: Any) -> Any:
        return other // _power_of_two(self)

    def bit_length(self) -> int:
        """Return the bits of the number; record that it equals its example value."""
        return int(self).bit_length()


def _power_of_two(exponent: Any) -> Any:
    """Return what a shift by some bits multiplies with."""
    if exponent < 0:
        raise ValueError(f"SymInt: expected a shift by 0 or more, got {exponent}: negative shift count")
    return 2**exponent


class SymFloat(_Number):
    """A floating-point number that is an expression in sizes, or read from a tensor while tracing.

    Args:
        node: a `SymNode`, which holds the expression.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        raise TypeError("unhashable type: SymFloat")

    def is_integer(self) -> Any:
        """Return whether the number equals its floor."""
        return self == getattr(self, "__floor__")()  # noqa: B009  (set below)

    def conjugate(self) -> SymFloat:
        """Return the number itself."""
        return self

    def as_integer_ratio(self) -> tuple[int, int]:
        """Return numerator and denominator; record that the number equals its example value."""
        return float(self).as_integer_ratio()

    def hex(self) -> str:
        """Return hexadecimal text; record that the number equals its example value."""
        return float(self).hex()


class SymBool(_Symbolic):
    """A condition on sizes; ``bool()`` evaluates it for the example sizes and records a guard.

    Args:
        node: a `SymNode`, which holds the condition.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(bool(self))

    def __int__(self) -> int:
        return int(bool(self))


_KINDS: dict[type, type] = {int: SymInt, float: SymFloat, bool: SymBool}


def wrapped(node: Any) -> Any:
    """Return the number of a node: a Python number if the expression contains no symbol."""
    known = node.constant()
    return _KINDS[node.pytype](node) if known is None else known


def _operation(name: str, is_reflected: bool) -> Callable[..., Any]:
    def method(self: Any, *others: Any) -> Any:
        operands = [other.node if isinstance(other, _Symbolic) else other for other in others]
        if not all(self.node.takes(operand) for operand in operands):
            return NotImplemented
        return wrapped(self.node.compute(name, operands, is_reflected))

    method.__name__ = f"__{name}__"
    return method


_BINARY = "add sub mul truediv floordiv mod pow"
_COMPARISONS = "eq ne lt le gt ge"
for _kind, _names in (
    (SymInt, f"{_BINARY} {_COMPARISONS} neg abs sym_max sym_min sym_float sym_sqrt"),
    (SymFloat, f"{_BINARY} {_COMPARISONS} neg abs sym_max sym_min sym_sqrt floor ceil trunc round"),
    (SymBool, "eq ne and or sym_not sym_ite"),
):
    for _name in _names.split():
        setattr(_kind, f"__{_name}__", _operation(_name, False))
        if _name in f"{_BINARY} and or".split():
            setattr(_kind, f"__r{_name}__", _operation(_name, True))
for _public in _KINDS.values():
    _public.__module__ = "flambeau"
setattr(SymInt, "__sym_int__", lambda self: self)  # noqa: B010  (the protocol of flambeau.sym_int)
setattr(SymFloat, "__sym_int__", getattr(SymFloat, "__trunc__"))  # noqa: B009, B010
setattr(SymFloat, "__sym_float__", lambda self: self)  # noqa: B010
setattr(SymBool, "__invert__", getattr(SymBool, "__sym_not__"))  # noqa: B009, B010
