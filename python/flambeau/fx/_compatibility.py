"""A decorator that marks how stable the interface of a function or class is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")

_BACK_COMPAT_OBJECTS: dict[Any, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[Any, None] = {}


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """Record whether later versions keep the interface of the decorated object, which is returned."""

    def mark(marked: _T) -> _T:
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(marked)
        _MARKED_WITH_COMPATIBILITY.setdefault(marked)
        return marked

    return mark
