"""Functions that run in every lane of tensors with symbolic sizes, although no class is asked.

Function transforms and custom gradients read sizes in C++. On tensors with symbolic sizes they run as a
whole in every lane, where sizes are numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


class _Finder:
    """Finds the program of tensors with symbolic sizes; set when the first such tensor is made."""

    find: Callable[[Any], Any] | None = None


finder = _Finder()


def program_of(*values: Any) -> Any:
    """Return the program of the tensors with symbolic sizes among values; None if there are none."""
    return None if finder.find is None else finder.find(values)


def for_each_lane(function: _F, like: Any = None) -> _F:
    """Return a function that runs in every lane if an argument has symbolic sizes.

    Args:
        function: the function.
        like: the function whose name and documentation the result has. Default: `function`.
    """

    @functools.wraps(function if like is None else like)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        program = None if finder.find is None else finder.find((args, kwargs))
        return function(*args, **kwargs) if program is None else program.call(function, args, kwargs)

    return wrapper  # type: ignore[return-value]
