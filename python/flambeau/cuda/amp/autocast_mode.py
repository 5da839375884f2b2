"""Autocast for CUDA under its older names."""

from __future__ import annotations

import warnings
from typing import Any

from flambeau import _C, amp, dtype
from flambeau.amp.older_names import DeviceAutocast

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(DeviceAutocast):
    """`amp.autocast` for CUDA, by default to float16; deprecated."""

    _device_type, _lower = "cuda", _C.float16


def custom_fwd(fwd: Any = None, *, cast_inputs: dtype | None = None) -> Any:
    """`amp.custom_fwd` for CUDA; deprecated."""
    warnings.warn("cuda.amp.custom_fwd is deprecated: write amp.custom_fwd", FutureWarning, stacklevel=2)
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`amp.custom_bwd` for CUDA; deprecated."""
    warnings.warn("cuda.amp.custom_bwd is deprecated: write amp.custom_bwd", FutureWarning, stacklevel=2)
    return amp.custom_bwd(bwd, device_type="cuda")
