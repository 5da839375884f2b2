"""Autocast for the CPU under its older names."""

from __future__ import annotations

import warnings

from flambeau import _C, amp, dtype

__all__ = ["autocast"]


class autocast(amp.autocast):
    """`amp.autocast` for the CPU; deprecated."""

    def __init__(self, enabled: bool = True, dtype: dtype = _C.bfloat16, cache_enabled: bool = True) -> None:
        warnings.warn(
            "cpu.amp.autocast is deprecated: write amp.autocast('cpu', ...)", FutureWarning, stacklevel=2
        )
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)
