"""The functions of devices that flambeau has no kernels for: programs may ask for them."""

from __future__ import annotations


def is_available() -> bool:
    """Whether there is a device: never."""
    return False


def device_count() -> int:
    """Return the number of devices: 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Seed every device: there is none."""


def empty_cache() -> None:
    """Free memory of every device: there is none."""
