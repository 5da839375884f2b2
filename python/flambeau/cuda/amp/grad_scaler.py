"""Scaling of losses for CUDA under its older name."""

from __future__ import annotations

import warnings

from flambeau import amp

__all__ = ["GradScaler"]


class GradScaler(amp.GradScaler):
    """`amp.GradScaler` for CUDA; deprecated."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warnings.warn(
            "cuda.amp.GradScaler is deprecated: write amp.GradScaler('cuda', ...)",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
