"""The accelerator of this machine, whatever kind it is: none that this build can use."""

from __future__ import annotations

from typing import Any

from flambeau._loading.devices import AbsentDevices, Table
from flambeau._loading.lazy import attributes

_MISSING = "flambeau has no kernels for an accelerator; accelerator.is_available() is False"
_INDEX = "the device, by index, name or `flambeau.device`; None: the current one."


def is_available() -> bool:
    """Return False: this build has no accelerator.

    Returns: False.

    Example:
        >>> flambeau.accelerator.is_available()
        False
    """
    return False


def device_count() -> int:
    """Return 0, the number of accelerators.

    Returns: 0.

    Example:
        >>> flambeau.accelerator.device_count()
        0
    """
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """Return None: there is no kind of accelerator that this build has kernels for.

    Args:
        check_available: whether a kind counts only if the machine has such a device.
    Returns: None.

    Example:
        >>> flambeau.accelerator.current_accelerator() is None
        True
    """
    return None


class device_index:
    """Block in which a device is the current one.

    Args:
        device: the index of the device; None has no effect.

    Example:
        >>> with flambeau.accelerator.device_index(None):
        ...     flambeau.accelerator.device_count()
        0
    """

    def __init__(self, device: int | None, /) -> None:
        self.index = device

    def __enter__(self) -> None:
        if self.index is not None:
            raise RuntimeError(f"accelerator.device_index: {_MISSING}")

    def __exit__(self, *exc: object) -> None:
        return None


_GLOSSARY = {
    "device": (_INDEX, "0"),
    "device_index": (_INDEX, "0"),
    "stream": ("the stream, a `flambeau.Stream`.", "None"),
}
_IDLE: Table = {
    "empty_cache": (lambda: None, "Give memory that no tensor uses back to the driver."),
    "memory_allocated": (lambda device_index=None, /: 0, "Return the number of bytes in a device's tensors."),
    "max_memory_allocated": (
        lambda device_index=None, /: 0,
        "Return the largest number of bytes that a device's tensors had at one time.",
    ),
    "memory_reserved": (
        lambda device_index=None, /: 0,
        "Return the number of bytes that the allocator holds, in tensors and in its cache.",
    ),
    "max_memory_reserved": (
        lambda device_index=None, /: 0,
        "Return the largest number of bytes that the allocator held at one time.",
    ),
    "memory_stats": (
        lambda device_index=None, /: {},
        "Return the allocator's counts and bytes by dotted names.",
    ),
}
_REFUSING: Table = {
    "current_device_index": (lambda: None, "Return the index of the current device."),
    "current_device_idx": (lambda: None, "Return the index of the current device, by its former name."),
    "set_device_index": (lambda device, /: None, "Make a device the current one."),
    "set_device_idx": (lambda device, /: None, "Make a device the current one, by its former name."),
    "current_stream": (lambda device=None, /: None, "Return the stream that new work of a device joins."),
    "set_stream": (lambda stream: None, "Make a stream and its device the current ones."),
    "synchronize": (lambda device=None, /: None, "Wait for all work that was given to a device."),
    "empty_host_cache": (lambda: None, "Give pinned memory that no tensor uses back to the system."),
    "get_device_capability": (
        lambda device=None, /: None,
        'Return what a device can do, such as its dtypes under "supported_dtypes".',
    ),
    "get_memory_info": (
        lambda device_index=None, /: None,
        "Return the bytes that are free on a device, and all its bytes.",
    ),
    "reset_accumulated_memory_stats": (
        lambda device_index=None, /: None,
        "Set the totals of a device's statistics since the program's start to 0.",
    ),
    "reset_peak_memory_stats": (
        lambda device_index=None, /: None,
        "Set the peaks of a device's statistics to the present values.",
    ),
}
_ABSENT = AbsentDevices("flambeau.accelerator", _GLOSSARY, RuntimeError, f"accelerator.{{name}}: {_MISSING}")
globals().update(_ABSENT.idle(_IDLE) | _ABSENT.refusing(_REFUSING))

__getattr__, __dir__ = attributes(__name__)
