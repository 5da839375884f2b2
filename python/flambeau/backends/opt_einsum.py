"""The order of contractions in einsum, which flambeau finds by itself."""

from __future__ import annotations

enabled = True
strategy = "auto"


def is_available() -> bool:
    """Tell whether einsum optimises the order of contractions.

    Returns: True: flambeau finds the order without a library.

    Example:
        >>> flambeau.backends.opt_einsum.is_available()
        True
    """
    return True
