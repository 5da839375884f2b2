"""Scaling of losses for CUDA under its older name."""

from flambeau.amp.older_names import DeviceGradScaler

__all__ = ["GradScaler"]


class GradScaler(DeviceGradScaler):
    """`amp.GradScaler` for CUDA; deprecated."""

    _device_type = "cuda"
