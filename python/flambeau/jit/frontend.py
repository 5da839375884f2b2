"""The exceptions of reading and saving source."""

from __future__ import annotations


class NotSupportedError(RuntimeError):
    """Raised for source that cannot be saved or loaded."""


class UnsupportedNodeError(NotSupportedError):
    """Raised for a statement or expression that cannot be saved or loaded."""


class FrontendError(Exception):
    """Raised for source that cannot be read."""
