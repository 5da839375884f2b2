"""Intel's MKL; products and LAPACK are OpenBLAS's."""

from __future__ import annotations


def is_available() -> bool:
    """Whether it is there: never."""
    return False
