"""Marks of ranges for a profiler."""

from __future__ import annotations

from typing import Any

from flambeau.utils._contextlib import context_decorator


class record_function:
    """Name a range of code for a profiler. There is no profiler yet, so the name has no effect.

    Args:
        name: of the range.
        args: a text beside it.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def __call__(self, function: Any) -> Any:
        return context_decorator(lambda: record_function(self.name, self.args), function)
