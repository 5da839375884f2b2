"""CUDA devices: there are none in this build, and every question says so.

What counts or seeds devices does so for none of them; what needs one raises AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from flambeau import _C
from flambeau._errors import OutOfMemoryError as OutOfMemoryError
from flambeau._lazy import attributes


def is_available() -> bool:
    """Whether there is a device: never."""
    return False


def is_initialized() -> bool:
    """Whether a device is in use: never."""
    return False


def device_count() -> int:
    """Return the number of devices: 0."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there is a device that computes in bfloat16: never."""
    return False


def is_current_stream_capturing() -> bool:
    """Whether a graph is being captured: never."""
    return False


def get_arch_list() -> list[str]:
    """Return the architectures that were compiled for: none."""
    return []


def _for_no_device(name: str) -> Callable[..., None]:
    def function(*args: Any, **kwargs: Any) -> None:
        return None

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of every device: there is none."
    return function


def _zero(name: str) -> Callable[..., int]:
    def function(device: Any = None) -> int:
        return 0

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Return a number of bytes: 0."
    return function


def _needing_one(name: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(f"{name}: flambeau is not compiled with CUDA enabled")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of a device. Raises: AssertionError, as there is none."
    return function


_SEEDING = "manual_seed manual_seed_all seed seed_all empty_cache ipc_collect reset_peak_memory_stats"
_BYTES = "memory_allocated max_memory_allocated memory_reserved max_memory_reserved"
_NEEDING = (
    "init current_device set_device get_device_name get_device_capability get_device_properties synchronize "
    "current_stream default_stream mem_get_info get_rng_state set_rng_state initial_seed Stream Event "
    "utilization"
)
globals().update({name: _for_no_device(name) for name in _SEEDING.split()})
globals().update({name: _zero(name) for name in _BYTES.split()})
globals().update({name: _needing_one(name) for name in _NEEDING.split()})


class device:
    """A block in which a device is the current one; with None or a negative index it does nothing."""

    def __init__(self, device: Any) -> None:
        self.index = device.index if isinstance(device, _C.device) else device

    def __enter__(self) -> None:
        if self.index is not None and (not isinstance(self.index, int) or self.index >= 0):
            globals()["set_device"](self.index)

    def __exit__(self, *exc: object) -> None:
        return None


__getattr__, __dir__ = attributes(__name__)
