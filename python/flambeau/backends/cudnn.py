"""cuDNN, which computes convolutions on CUDA devices: not built in."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any

from flambeau.backends._flags import changed

enabled = True
deterministic = False
benchmark = False
benchmark_limit = 10
allow_tf32 = True


def is_available() -> bool:
    """Whether the library is there: never."""
    return False


def version() -> int | None:
    """Return its version: None."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether it could take a tensor: never."""
    return False


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> AbstractContextManager[None]:
    """Set flags for a block."""
    values = {
        "enabled": enabled,
        "benchmark": benchmark,
        "benchmark_limit": benchmark_limit,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
    }
    return changed(sys.modules[__name__], values)
