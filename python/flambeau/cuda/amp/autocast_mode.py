"""Autocast for CUDA under its older names."""

from __future__ import annotations

import warnings
from typing import Any

from flambeau import _C, amp, dtype

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """`amp.autocast` for CUDA; deprecated."""

    def __init__(self, enabled: bool = True, dtype: dtype = _C.float16, cache_enabled: bool = True) -> None:
        warnings.warn(
            "cuda.amp.autocast is deprecated: write amp.autocast('cuda', ...)", FutureWarning, stacklevel=2
        )
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: dtype | None = None) -> Any:
    """`amp.custom_fwd` for CUDA; deprecated."""
    warnings.warn("cuda.amp.custom_fwd is deprecated: write amp.custom_fwd", FutureWarning, stacklevel=2)
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`amp.custom_bwd` for CUDA; deprecated."""
    warnings.warn("cuda.amp.custom_bwd is deprecated: write amp.custom_bwd", FutureWarning, stacklevel=2)
    return amp.custom_bwd(bwd, device_type="cuda")
