"""OpenMP, which gives the threads."""

from __future__ import annotations


def is_available() -> bool:
    """Tell whether loops run on threads of OpenMP.

    Returns: True.

    Example:
        >>> flambeau.backends.openmp.is_available()
        True
    """
    return True
