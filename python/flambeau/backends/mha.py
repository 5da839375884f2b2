"""Fast paths of attention layers."""

from __future__ import annotations

_fastpath = True


def get_fastpath_enabled() -> bool:
    """Whether attention layers may take a fast path in evaluation."""
    return _fastpath


def set_fastpath_enabled(value: bool) -> None:
    """Allow or forbid it."""
    global _fastpath
    _fastpath = value
