"""Checks of the numbers that describe hardware, work and plans."""

from __future__ import annotations

import math
from typing import Any


def number(where: str, what: str, value: Any, least: float = 0.0, above: bool = False) -> float:
    """Return a finite number.

    Args:
        where: the public name that is called.
        what: the name of the argument.
        value: the argument.
        least: the smallest number that is allowed.
        above: whether the number must be larger than `least`.
    Raises: TypeError for what is no number, ValueError for another number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{where}: expected a number as {what}, got {type(value).__name__}")
    if not math.isfinite(value) or value < least or (above and value == least):
        relation = "above" if above else "of at least"
        raise ValueError(f"{where}: expected a finite number {relation} {least:g} as {what}, got {value}")
    return float(value)


def count(where: str, what: str, value: Any, least: int = 1) -> int:
    """Return an integer of at least `least`. Raises: TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{where}: expected an integer as {what}, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{where}: expected an integer of at least {least} as {what}, got {value}")
    return value


def divisor(where: str, what: str, value: int, of: str, size: int) -> None:
    """Raise ValueError if a number does not divide another."""
    if size % value:
        raise ValueError(f"{where}: expected a {what} that divides {of}, got {value} and {size}")


def choice(where: str, what: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise ValueError if a text is not one of those that are allowed."""
    if value not in allowed:
        raise ValueError(f"{where}: expected one of {', '.join(allowed)} as {what}, got {value!r}")


def kind(where: str, what: str, value: Any, expected: type) -> None:
    """Raise TypeError if a value has another type."""
    if not isinstance(value, expected):
        raise TypeError(f"{where}: expected a {expected.__name__} as {what}, got {type(value).__name__}")
