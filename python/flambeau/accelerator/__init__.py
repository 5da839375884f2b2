"""The accelerator of this process: the devices of the kind that a package has registered.

The functions call those of the same names in the module of the kind, such as `flambeau.opencl`. Without a
registered kind there is no accelerator: `is_available` returns False, and functions that need a device
raise RuntimeError.
"""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._loading.lazy import attributes
from flambeau._state.device_modules import _module_named, accelerator_kind
from flambeau.accelerator.memory import empty_cache as empty_cache
from flambeau.accelerator.memory import empty_host_cache as empty_host_cache
from flambeau.accelerator.memory import get_memory_info as get_memory_info
from flambeau.accelerator.memory import max_memory_allocated as max_memory_allocated
from flambeau.accelerator.memory import max_memory_reserved as max_memory_reserved
from flambeau.accelerator.memory import memory_allocated as memory_allocated
from flambeau.accelerator.memory import memory_reserved as memory_reserved
from flambeau.accelerator.memory import memory_stats as memory_stats
from flambeau.accelerator.memory import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from flambeau.accelerator.memory import reset_peak_memory_stats as reset_peak_memory_stats

from ._module import call as _call
from ._module import index_of as _index_of


class Graph:
    """A recorded sequence of a device's work; flambeau has no graphs of devices.

    Args:
        *args: ignored.
        **kwargs: ignored.
    Raises: RuntimeError always.

    Example:
        >>> flambeau.accelerator.Graph()
        Traceback (most recent call last):
        RuntimeError: accelerator.Graph: flambeau has no graphs of devices
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("accelerator.Graph: flambeau has no graphs of devices")


def is_available() -> bool:
    """Return whether a package has registered a kind of device and finds at least one.

    Returns: a bool.
    See also: accelerator.current_accelerator, accelerator.device_count

    Example:
        >>> flambeau.accelerator.is_available()
        False
    """
    return device_count() > 0


def device_count() -> int:
    """Return the number of devices of the accelerator.

    Returns: the number; 0 without an accelerator.

    Example:
        >>> flambeau.accelerator.device_count()
        0
    """
    kind = accelerator_kind()
    if kind is None:
        return 0
    count = getattr(_module_named(kind), "device_count", _C._privateuse1_device_count)
    return int(count())


def current_accelerator(check_available: bool = False) -> _C.device | None:
    """Return the kind of the accelerator, as a device without an index.

    Args:
        check_available: whether a kind without a device counts as none.
    Returns: the device, such as ``device("opencl")``; None without an accelerator.
    See also: accelerator.is_available

    Example:
        >>> flambeau.accelerator.current_accelerator() is None
        True
    """
    kind = accelerator_kind()
    if kind is None or (check_available and not is_available()):
        return None
    return _C.device(kind)


def current_device_index() -> int:
    """Return the index of the current device of this thread.

    Returns: the index.
    Raises: RuntimeError without an accelerator.
    See also: accelerator.set_device_index, accelerator.device_index

    Example:
        >>> flambeau.accelerator.current_device_index()
        Traceback (most recent call last):
        RuntimeError: accelerator.current_device: expected an accelerator, got none
    """
    return int(_call("current_device"))


def set_device_index(device: Any, /) -> None:
    """Make a device the current one of this thread.

    Args:
        device: its index, its name, or the device. A negative index changes nothing.
    Returns: None.
    Raises: RuntimeError without an accelerator; ValueError for a device of another kind or without an index.
    See also: accelerator.current_device_index, accelerator.device_index

    Example:
        >>> flambeau.accelerator.set_device_index(0)
        Traceback (most recent call last):
        RuntimeError: accelerator.set_device: expected an accelerator, got none
    """
    index = _index_of("set_device", device, current=False)
    if index >= 0:
        _call("set_device", index)


current_device_idx = current_device_index
set_device_idx = set_device_index


def current_stream(device: Any = None, /) -> Any:
    """Return the stream that new work of a device joins.

    Args:
        device: its index, its name, or the device. Default: the current device.
    Returns: the stream, an object of the kind's module.
    Raises: RuntimeError without an accelerator; ValueError for a device of another kind.
    See also: accelerator.set_stream

    Example:
        >>> flambeau.accelerator.current_stream()
        Traceback (most recent call last):
        RuntimeError: accelerator.current_stream: expected an accelerator, got none
    """
    return _call("current_stream", _index_of("current_stream", device))


def set_stream(stream: Any) -> None:
    """Make a stream the current one of its device, and its device the current one of this thread.

    Args:
        stream: a stream of the kind's module.
    Returns: None.
    Raises: RuntimeError without an accelerator.
    See also: accelerator.current_stream

    Example:
        >>> flambeau.accelerator.set_stream(None)
        Traceback (most recent call last):
        RuntimeError: accelerator.set_stream: expected an accelerator, got none
    """
    _call("set_stream", stream)
    _call("set_device", stream.device.index)


def synchronize(device: Any = None, /) -> None:
    """Wait until all work of a device is done.

    Args:
        device: its index, its name, or the device. Default: the current device.
    Returns: None.
    Raises: RuntimeError without an accelerator; ValueError for a device of another kind.

    Example:
        >>> flambeau.accelerator.synchronize()
        Traceback (most recent call last):
        RuntimeError: accelerator.synchronize: expected an accelerator, got none
    """
    _call("synchronize", _index_of("synchronize", device))


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """Return what a device can do.

    Args:
        device: its index, its name, or the device. Default: the current device.
    Returns: a dictionary; ``"supported_dtypes"`` is the set of dtypes that its tensors may have.
    Raises: RuntimeError without an accelerator; ValueError for a device of another kind.

    Example:
        >>> flambeau.accelerator.get_device_capability()
        Traceback (most recent call last):
        RuntimeError: accelerator.get_device_capability: expected an accelerator, got none
    """
    return dict(_call("get_device_capability", _index_of("get_device_capability", device)))


class device_index:
    """Block in which a device is the current one of this thread.

    Args:
        device: the index of the device; None has no effect.
    Raises: RuntimeError without an accelerator, when the block begins.
    See also: accelerator.set_device_index

    Example:
        >>> with flambeau.accelerator.device_index(None):
        ...     flambeau.accelerator.device_count()
        0
    """

    def __init__(self, device: int | None, /) -> None:
        self.index = device
        self._before: list[int] = []

    def __enter__(self) -> None:
        if self.index is not None:
            self._before.append(current_device_index())
            set_device_index(self.index)

    def __exit__(self, *exc: object) -> None:
        if self.index is not None:
            set_device_index(self._before.pop())


__getattr__, __dir__ = attributes(__name__)
