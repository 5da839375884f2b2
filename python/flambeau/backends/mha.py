"""Fast paths of attention layers."""

from __future__ import annotations

_fastpath = True


def get_fastpath_enabled() -> bool:
    """Tell whether attention layers may take a fast path in evaluation.

    Returns: a bool.

    Example:
        >>> flambeau.backends.mha.get_fastpath_enabled()
        True
    """
    return _fastpath


def set_fastpath_enabled(value: bool) -> None:
    """Allow or forbid the fast path of attention layers in evaluation.

    Args:
        value: True to allow it, False to forbid it.
    Returns: None.

    Example:
        >>> flambeau.backends.mha.set_fastpath_enabled(True)
    """
    global _fastpath
    _fastpath = value
