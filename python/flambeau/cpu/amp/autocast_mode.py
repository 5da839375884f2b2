"""Autocast for the CPU under its older name."""

from flambeau import _C
from flambeau.amp.older_names import DeviceAutocast

__all__ = ["autocast"]


class autocast(DeviceAutocast):
    """`amp.autocast` for the CPU, by default to bfloat16; deprecated."""

    _device_type, _lower = "cpu", _C.bfloat16
