"""Memory of the accelerator's devices, as the module of their kind counts it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ._module import call as _call
from ._module import index_of as _index_of


def empty_cache() -> None:
    """Give memory that no tensor uses back to the driver.

    Returns: None.
    Raises: RuntimeError without an accelerator.

    Example:
        >>> flambeau.accelerator.empty_cache()
        Traceback (most recent call last):
        RuntimeError: accelerator.empty_cache: expected an accelerator, got none
    """
    _call("empty_cache")


def empty_host_cache() -> None:
    """Give pinned memory of the host that no tensor uses back to the system.

    Returns: None.
    Raises: RuntimeError without an accelerator, and for kinds without pinned memory.

    Example:
        >>> flambeau.accelerator.empty_host_cache()
        Traceback (most recent call last):
        RuntimeError: accelerator.empty_host_cache: expected an accelerator, got none
    """
    _call("empty_host_cache")


def memory_stats(device_index: Any = None, /) -> OrderedDict[str, Any]:
    """Return the counts of a device's allocator, sorted by name.

    Args:
        device_index: the index of the device, its name, or the device. Default: the current device.
    Returns: the counts by dotted names, such as ``"allocated_bytes.all.current"``.
    Raises: RuntimeError without an accelerator; ValueError for a device of another kind.
    See also: accelerator.memory_allocated

    Example:
        >>> flambeau.accelerator.memory_stats()
        Traceback (most recent call last):
        RuntimeError: accelerator.memory_stats: expected an accelerator, got none
    """
    return OrderedDict(sorted(_call("memory_stats", _index_of("memory_stats", device_index)).items()))


def memory_allocated(device_index: Any = None, /) -> int:
    """Return the number of bytes in tensors of a device.

    Args:
        device_index: the index of the device, its name, or the device. Default: the current device.
    Returns: the number of bytes.
    Raises: RuntimeError without an accelerator; ValueError for a device of another kind.
    See also: accelerator.max_memory_allocated, accelerator.memory_reserved

    Example:
        >>> flambeau.accelerator.memory_allocated()
        Traceback (most recent call last):
        RuntimeError: accelerator.memory_allocated: expected an accelerator, got none
    """
    return int(_call("memory_allocated", _index_of("memory_allocated", device_index)))


def max_memory_allocated(device_index: Any = None, /) -> int:
    """Return the largest number of bytes that tensors of a device had at one time.

    Args:
        device_index: the index of the device, its name, or the device. Default: the current device.
    Returns: the number of bytes since `reset_peak_memory_stats`, or since the start of the program.
    Raises: RuntimeError without an accelerator; ValueError for a device of another kind.
    See also: accelerator.memory_allocated

    Example:
        >>> flambeau.accelerator.max_memory_allocated()
        Traceback (most recent call last):
        RuntimeError: accelerator.max_memory_allocated: expected an accelerator, got none
    """
    return int(_call("max_memory_allocated", _index_of("max_memory_allocated", device_index)))


def memory_reserved(device_index: Any = None, /) -> int:
    """Return the number of bytes that the allocator of a device holds, in tensors and in its cache.

    Args:
        device_index: the index of the device, its name, or the device. Default: the current device.
    Returns: the number of bytes.
    Raises: RuntimeError without an accelerator; ValueError for a device of another kind.
    See also: accelerator.empty_cache, accelerator.max_memory_reserved

    Example:
        >>> flambeau.accelerator.memory_reserved()
        Traceback (most recent call last):
        RuntimeError: accelerator.memory_reserved: expected an accelerator, got none
    """
    return int(_call("memory_reserved", _index_of("memory_reserved", device_index)))


def max_memory_reserved(device_index: Any = None, /) -> int:
    """Return the largest number of bytes that the allocator of a device held at one time.

    Args:
        device_index: the index of the device, its name, or the device. Default: the current device.
    Returns: the number of bytes since `reset_peak_memory_stats`, or since the start of the program.
    Raises: RuntimeError without an accelerator, and for kinds that do not count it; ValueError for a device
        of another kind.
    See also: accelerator.memory_reserved

    Example:
        >>> flambeau.accelerator.max_memory_reserved()
        Traceback (most recent call last):
        RuntimeError: accelerator.max_memory_reserved: expected an accelerator, got none
    """
    return int(_call("max_memory_reserved", _index_of("max_memory_reserved", device_index)))


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """Set the totals of a device's allocator since the start of the program to 0.

    Args:
        device_index: the index of the device, its name, or the device. Default: the current device.
    Returns: None.
    Raises: RuntimeError without an accelerator, and for kinds that keep no totals; ValueError for a device of
        another kind.
    See also: accelerator.memory_stats

    Example:
        >>> flambeau.accelerator.reset_accumulated_memory_stats()
        Traceback (most recent call last):
        RuntimeError: accelerator.reset_accumulated_memory_stats: expected an accelerator, got none
    """
    _call("reset_accumulated_memory_stats", _index_of("reset_accumulated_memory_stats", device_index))


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Set the peaks of a device's allocator to the present values.

    Args:
        device_index: the index of the device, its name, or the device. Default: the current device.
    Returns: None.
    Raises: RuntimeError without an accelerator; ValueError for a device of another kind.
    See also: accelerator.max_memory_allocated

    Example:
        >>> flambeau.accelerator.reset_peak_memory_stats()
        Traceback (most recent call last):
        RuntimeError: accelerator.reset_peak_memory_stats: expected an accelerator, got none
    """
    _call("reset_peak_memory_stats", _index_of("reset_peak_memory_stats", device_index))


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """Return the bytes that are free on a device, and all its bytes.

    Args:
        device_index: the index of the device, its name, or the device. Default: the current device.
    Returns: the pair (free, total).
    Raises: RuntimeError without an accelerator, and for kinds whose driver does not tell; ValueError for a
        device of another kind.

    Example:
        >>> flambeau.accelerator.get_memory_info()
        Traceback (most recent call last):
        RuntimeError: accelerator.get_memory_info: expected an accelerator, got none
    """
    free, total = _call("mem_get_info", _index_of("get_memory_info", device_index))
    return int(free), int(total)
