"""The CPU."""

from __future__ import annotations

from flambeau import _C


def get_cpu_capability() -> str:
    """Return the instruction set that loops are run in."""
    return _C._cpu_capability()
