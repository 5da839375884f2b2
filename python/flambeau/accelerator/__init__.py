"""The accelerator of this machine, whatever kind it is: none that this build can use."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau._loading.lazy import attributes

_MISSING = "flambeau has no kernels for an accelerator; accelerator.is_available() is False"


def is_available() -> bool:
    """Whether there is one: never."""
    return False


def device_count() -> int:
    """Return the number of devices: 0."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """Return its kind: None."""
    return None


def _needing_one(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"accelerator.{name}: {_MISSING}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of a device. Raises: RuntimeError, as there is none."
    return function


_NEEDING = (
    "current_device_idx current_device_index current_stream empty_host_cache get_device_capability "
    "get_memory_info reset_accumulated_memory_stats reset_peak_memory_stats set_device_idx set_device_index "
    "set_stream synchronize"
)
globals().update({name: _needing_one(name) for name in _NEEDING.split()})


def memory_allocated(device_index: Any = None, /) -> int:
    """Return 0, the number of bytes in use: there is no accelerator."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def empty_cache() -> None:
    """Do nothing: there is no accelerator with unused memory."""


def memory_stats(device_index: Any = None, /) -> dict[str, Any]:
    """Return an empty dict: there is no accelerator with an allocator."""
    return {}


class device_index:
    """A block in which a device is the current one; with None it does nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.index = device

    def __enter__(self) -> None:
        if self.index is not None:
            raise RuntimeError(f"accelerator.device_index: {_MISSING}")

    def __exit__(self, *exc: object) -> None:
        return None


__getattr__, __dir__ = attributes(__name__)
