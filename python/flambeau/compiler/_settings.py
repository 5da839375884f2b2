"""Modules of settings: a fixed set of names whose values can be changed, permanently or for a block."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class Patch:
    """Changes settings for a ``with`` block, or while a decorated function runs."""

    def __init__(self, module: ModuleType, changes: dict[str, Any]) -> None:
        for name in changes:
            if name not in vars(module):
                raise AttributeError(f"{module.__name__} has no setting '{name}'")
        self._module, self._changes = module, changes
        self._kept: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self._kept.append({name: vars(self._module)[name] for name in self._changes})
        vars(self._module).update(self._changes)

    def __exit__(self, *exception: object) -> None:
        vars(self._module).update(self._kept.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run


def patcher(name: str) -> Callable[..., Patch]:
    """Return the function ``patch`` for the settings module `name`."""

    def patch(changes: Any = None, value: Any = None, /, **named: Any) -> Patch:
        given = {changes: value} if isinstance(changes, str) else dict(changes or {})
        return Patch(sys.modules[name], {**given, **named})

    return patch
