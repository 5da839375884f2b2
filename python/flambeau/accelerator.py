"""The accelerator of this machine, whatever kind it is: none that this build can use."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """Whether there is one: never."""
    return False


def device_count() -> int:
    """Return the number of devices: 0."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """Return its kind: None."""
    return None
