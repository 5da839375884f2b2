"""Exceptions of the package that are not Python's own."""

from __future__ import annotations

__all__ = ["OutOfMemoryError"]


class OutOfMemoryError(RuntimeError):
    """The error of an accelerator without free memory. The CPU raises RuntimeError with the same words.

    Example:
        >>> issubclass(flambeau.OutOfMemoryError, RuntimeError)
        True
    """


OutOfMemoryError.__module__ = "flambeau"
