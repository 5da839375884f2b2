"""Apple's Metal."""

from __future__ import annotations


def is_built() -> bool:
    """Tell whether flambeau was built for Apple's Metal.

    Returns: False.

    Example:
        >>> flambeau.backends.mps.is_built()
        False
    """
    return False


def is_available() -> bool:
    """Tell whether there is a device of Apple's Metal.

    Returns: False.

    Example:
        >>> flambeau.backends.mps.is_available()
        False
    """
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Tell whether this is a version of macOS, or a newer one, with Metal.

    Args:
        major: the major version.
        minor: the minor version.
    Returns: False.

    Example:
        >>> flambeau.backends.mps.is_macos_or_newer(13, 0)
        False
    """
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Tell whether this is macOS 13 or newer, with Metal.

    Args:
        minor: the minor version.
    Returns: False.

    Example:
        >>> flambeau.backends.mps.is_macos13_or_newer()
        False
    """
    return False
