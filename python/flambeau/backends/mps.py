"""Apple's Metal."""

from __future__ import annotations


def is_built() -> bool:
    """Whether flambeau was built for it: never."""
    return False


def is_available() -> bool:
    """Whether there is such a device: never."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether this is that version of macOS or a newer one, with Metal: never."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether this is macOS 13 or newer, with Metal: never."""
    return False
