"""Scaling of losses for the CPU under its older name."""

from flambeau.amp.older_names import DeviceGradScaler

__all__ = ["GradScaler"]


class GradScaler(DeviceGradScaler):
    """`amp.GradScaler` for the CPU; deprecated."""

    _device_type = "cpu"
