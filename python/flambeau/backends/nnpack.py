"""NNPACK."""

from __future__ import annotations


def is_available() -> bool:
    """Tell whether NNPACK is part of this installation.

    Returns: False.

    Example:
        >>> flambeau.backends.nnpack.is_available()
        False
    """
    return False
