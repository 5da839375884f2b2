"""What reading source can raise."""

from __future__ import annotations


class NotSupportedError(RuntimeError):
    """Source that cannot be saved."""


class UnsupportedNodeError(NotSupportedError):
    """A statement or expression that cannot be saved."""


class FrontendError(Exception):
    """Source that cannot be read."""
