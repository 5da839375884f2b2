"""Questions about compilation that libraries ask."""

from __future__ import annotations


def is_compile_supported(device_type: str) -> bool:
    """Whether programs can be compiled for a device: False."""
    return False
