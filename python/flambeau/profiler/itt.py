"""Ranges for Intel's VTune. Its library is not linked, so the functions do nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from flambeau._loading.lazy import attributes

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Return False: the library of VTune is not linked."""
    return False


def range_push(msg: str) -> None:
    """Do nothing: no collector records the beginning of the range.

    Args:
        msg: the name of the range.
    """


def range_pop() -> None:
    """Do nothing: no collector records the end of the range."""


def mark(msg: str) -> None:
    """Do nothing: no collector records the point in time.

    Args:
        msg: the name of the point.
    """


@contextlib.contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Begin and end a range around the block.

    Args:
        msg: the name of the range, which is formatted with the other arguments.
        args: for `str.format`.
        kwargs: for `str.format`.
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


__getattr__, __dir__ = attributes(__name__)
