"""cuDNN, which computes convolutions on CUDA devices: not built in."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any

from flambeau.backends._flags import changed as _changed

enabled = True
deterministic = False
benchmark = False
benchmark_limit = 10
allow_tf32 = True


def is_available() -> bool:
    """Tell whether cuDNN is part of this installation.

    Returns: False.

    Example:
        >>> flambeau.backends.cudnn.is_available()
        False
    """
    return False


def version() -> int | None:
    """Give the version of cuDNN.

    Returns: None, as it is not part of this installation.

    Example:
        >>> flambeau.backends.cudnn.version() is None
        True
    """
    return None


def is_acceptable(tensor: Any) -> bool:
    """Tell whether cuDNN could compute with a tensor.

    Args:
        tensor: the tensor.
    Returns: False.

    Example:
        >>> flambeau.backends.cudnn.is_acceptable(flambeau.ones(2))
        False
    """
    return False


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> AbstractContextManager[None]:
    """Set the flags of this module for the length of a block. No effect on results.

    Args:
        enabled: whether cuDNN may be used.
        benchmark: whether algorithms are chosen by measurement.
        benchmark_limit: how many algorithms are measured at most.
        deterministic: whether only deterministic algorithms are used.
        allow_tf32: whether products may be computed in TF32.
    Returns: a context manager, which restores the flags.

    Example:
        >>> with flambeau.backends.cudnn.flags(enabled=False):
        ...     flambeau.backends.cudnn.enabled
        False
    """
    values = {
        "enabled": enabled,
        "benchmark": benchmark,
        "benchmark_limit": benchmark_limit,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
    }
    return _changed(sys.modules[__name__], values)
