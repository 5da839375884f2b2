"""Which positional arguments a transform differentiates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ArgNums = int | tuple[int, ...]


def _place(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"flambeau.func: argnum must be int: expected an int, got: {type(argnum)}")
    if not -count <= argnum < count:
        raise RuntimeError(
            f"flambeau.func: expected argnums from {-count} to {count - 1} for {count} positional "
            f"inputs, got {argnum}"
        )
    return argnum + count if argnum < 0 else argnum


def places(argnums: ArgNums, count: int) -> int | tuple[int, ...]:
    """Return argnums as non-negative numbers.

    Raises: RuntimeError if they are not integers, out of range, repeated or empty.
    """
    if isinstance(argnums, int):
        return _place(argnums, count)
    if not isinstance(argnums, tuple):
        raise RuntimeError(
            f"flambeau.func: expected argnums to be an int or a tuple of ints, got {type(argnums)}"
        )
    if not argnums:
        raise RuntimeError("flambeau.func: argnums must be non-empty: expected one number or more, got ()")
    found = tuple(_place(argnum, count) for argnum in argnums)
    if len(set(found)) != len(found):
        raise RuntimeError(f"flambeau.func: expected each number in argnums once, got {argnums}")
    return found


def chosen(args: tuple[Any, ...], argnums: ArgNums) -> Any:
    """Return the argument at `argnums`, or a tuple of arguments if `argnums` is a tuple."""
    where = places(argnums, len(args))
    return args[where] if isinstance(where, int) else tuple(args[i] for i in where)


def of_chosen(
    func: Callable[..., Any], args: tuple[Any, ...], argnums: ArgNums, kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return `func` as a function of only the arguments at `argnums`, and these arguments as a tuple."""
    where = places(argnums, len(args))
    indices = (where,) if isinstance(where, int) else where

    def partial(*some: Any) -> Any:
        given = list(args)
        for i, value in zip(indices, some, strict=True):
            given[i] = value
        return func(*given, **kwargs)

    return partial, tuple(args[i] for i in indices)
