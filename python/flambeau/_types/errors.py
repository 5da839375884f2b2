"""Exceptions of the package that are not Python's own."""

from __future__ import annotations

__all__ = ["OutOfMemoryError"]


class OutOfMemoryError(RuntimeError):
    """Raised when an accelerator has no memory left; the CPU raises RuntimeError with the same words."""


OutOfMemoryError.__module__ = "flambeau"
