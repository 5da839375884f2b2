"""Intel's MKL; products and LAPACK are OpenBLAS's."""

from __future__ import annotations


def is_available() -> bool:
    """Tell whether Intel's MKL is part of this installation.

    Returns: False: products and LAPACK are those of OpenBLAS.

    Example:
        >>> flambeau.backends.mkl.is_available()
        False
    """
    return False
