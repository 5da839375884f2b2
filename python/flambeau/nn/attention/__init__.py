"""Which way of computing attention is taken, under PyTorch's names.

There is one here: blocks that never hold all weights. The choice is kept and told, and changes no result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from flambeau._loading.lazy import attributes
from flambeau.backends import cuda

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(IntEnum):
    """Names of the ways to compute attention that programs choose from; there is one way here, which they all
    mean.

    Example:
        >>> flambeau.nn.attention.SDPBackend.MATH.value
        0
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_SWITCHES: dict[SDPBackend, tuple[Any, Any]] = {
    SDPBackend.MATH: (cuda.math_sdp_enabled, cuda.enable_math_sdp),
    SDPBackend.FLASH_ATTENTION: (cuda.flash_sdp_enabled, cuda.enable_flash_sdp),
    SDPBackend.EFFICIENT_ATTENTION: (cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp),
    SDPBackend.CUDNN_ATTENTION: (cuda.cudnn_sdp_enabled, cuda.enable_cudnn_sdp),
}


@contextmanager
def sdpa_kernel(backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Allow only some ways to compute attention within a block.

    There is one way here: blocks that never hold all weights. The choice is kept and can be read, and changes
    no result.

    Args:
        backends: one way or several.
        set_priority: whether the order of `backends` counts; there is nothing to choose between here.
    Returns: a context manager.
    Raises: AssertionError for a value that is not a `SDPBackend`.

    Example:
        >>> with flambeau.nn.attention.sdpa_kernel(flambeau.nn.attention.SDPBackend.MATH):
        ...     print(flambeau.backends.cuda.flash_sdp_enabled())
        False
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for backend in chosen:
        if not isinstance(backend, SDPBackend):
            raise AssertionError(f"sdpa_kernel: expected SDPBackend, or a list of them, got {backend!r}")
    before = {backend: enabled() for backend, (enabled, _) in _SWITCHES.items()}
    try:
        for backend, (_, enable) in _SWITCHES.items():
            enable(backend in chosen)
        yield
    finally:
        for backend, (_, enable) in _SWITCHES.items():
            enable(before[backend])


__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]

__getattr__, __dir__ = attributes(__name__)
