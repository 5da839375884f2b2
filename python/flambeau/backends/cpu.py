"""The CPU."""

from __future__ import annotations

from flambeau import _C


def get_cpu_capability() -> str:
    """Tell the instruction set of the loops that this process uses.

    Returns: "x86_64", "v3" or "v4", the levels of the x86-64 ABI.

    Example:
        >>> flambeau.backends.cpu.get_cpu_capability() in ("x86_64", "v3", "v4")
        True
    """
    return _C._cpu_capability()
