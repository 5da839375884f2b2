"""OpenCL devices for flambeau: the device kind ``opencl`` and its module ``flambeau.opencl``.

Tensors are moved by ``to("opencl")`` and created with ``device="opencl"``. Pointwise operators and
reductions of real dtypes, matrix products, convolutions, pooling and normalization run on the device. Other
operators run on the CPU, and a warning names each once (`flambeau.utils.set_privateuse1_fallback` makes it
an error).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import flambeau

from . import _native

KIND = "opencl"


def _index(device: Any = None) -> int:
    """Return the index that a device, its name, an index or None for the current device means."""
    if device is None:
        return int(_native.current_device())
    if isinstance(device, int) and not isinstance(device, bool):
        index = device
    else:
        named = flambeau.device(device)
        if named.type != KIND:
            raise ValueError(f"{KIND}: expected a device of type {KIND!r}, got {device!r}")
        index = int(_native.current_device()) if named.index is None else named.index
    if not 0 <= index < device_count():
        raise RuntimeError(f"{KIND}: expected the index of a device below {device_count()}, got {index}")
    return index


def is_available() -> bool:
    """Whether OpenCL finds a device."""
    return device_count() > 0


def device_count() -> int:
    """Return the number of devices."""
    return int(_native.device_count())


def current_device() -> int:
    """Return the index of the current device of this thread."""
    return int(_native.current_device())


def set_device(device: Any) -> None:
    """Make a device the current one of this thread."""
    _native.set_device(_index(device))


class device:
    """Block in which a device is the current one of the thread; None changes nothing."""

    def __init__(self, device: Any) -> None:
        self.index = current_device() if device is None else _index(device)
        self.before = self.index

    def __enter__(self) -> None:
        self.before = current_device()
        _native.set_device(self.index)

    def __exit__(self, *exc: object) -> None:
        _native.set_device(self.before)


def get_device_name(device: Any = None) -> str:
    """Return the name that the driver gives a device."""
    return str(get_device_properties(device)["name"])


def get_device_properties(device: Any = None) -> dict[str, Any]:
    """Return name, `has_double`, `total_memory` in bytes, and the number of compiled `programs`."""
    return dict(_native.properties(_index(device)))


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """Return the dtypes of tensors on a device, ``supported_dtypes``; kernels may run on the CPU for them."""
    _index(device)
    dtypes = {value for value in vars(flambeau).values() if isinstance(value, flambeau.dtype)}
    return {"supported_dtypes": dtypes}


def synchronize(device: Any = None) -> None:
    """Wait for all work of the current stream of a device."""
    current_stream(device).synchronize()


# --- memory ---------------------------------------------------------------------------------------


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return the allocator's counts by dotted names; allocations that the cache served are ``cache_hits``."""
    stats = _native.stats(_index(device))
    return {
        "allocated_bytes.all.current": stats["allocated_bytes"],
        "allocated_bytes.all.peak": stats["peak_allocated_bytes"],
        "reserved_bytes.all.current": stats["allocated_bytes"] + stats["cached_bytes"],
        "allocation.all.allocated": stats["allocations"],
        "cache_hits": stats["cache_hits"],
    }


def memory_allocated(device: Any = None) -> int:
    """Return the number of bytes in tensors."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: Any = None) -> int:
    """Return the largest number of bytes in tensors since `reset_peak_memory_stats`."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: Any = None) -> int:
    """Return the number of bytes in tensors and in the cache."""
    return memory_stats(device)["reserved_bytes.all.current"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Set the peak to the present number of bytes."""
    _native.reset_peak(_index(device))


def empty_cache() -> None:
    """Give memory that no tensor uses back to the driver."""
    _native.empty_cache()


# --- streams and events ---------------------------------------------------------------------------


class Stream:
    """An in-order queue of work on a device; it lives as long as the process.

    Work of different streams may overlap: `wait_stream` and events order it. A tensor's memory is reused
    by the stream that was current when it was created.
    """

    def __init__(self, device: Any = None, *, _handle: Any = None) -> None:
        self._handle = _native.new_stream(_index(device)) if _handle is None else _handle
        self.device = flambeau.device(KIND, self._handle.device_index())

    def synchronize(self) -> None:
        """Wait until its work is done."""
        self._handle.synchronize()

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event after the work submitted so far, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let later work of this stream start after an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Let later work of this stream start after the present work of another one."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._handle.address() == other._handle.address()

    def __hash__(self) -> int:
        return hash(self._handle.address())

    def __repr__(self) -> str:
        return f"<flambeau.{KIND}.Stream device={self.device} address={self._handle.address():#x}>"


class Event:
    """A point in a stream."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._event = _native.Event()
        self.enable_timing = enable_timing

    def record(self, stream: Stream | None = None) -> None:
        """Record the point after the present work of a stream. Default: the current one."""
        self._event.record((current_stream() if stream is None else stream)._handle)

    def wait(self, stream: Stream | None = None) -> None:
        """Let later work of a stream start after the event. Default: the current one."""
        self._event.wait((current_stream() if stream is None else stream)._handle)

    def query(self) -> bool:
        """Whether the work before it is done."""
        return bool(self._event.query())

    def synchronize(self) -> None:
        """Wait until the work before it is done."""
        self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds between two recorded events with `enable_timing`."""
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("elapsed_time: expected events made with enable_timing=True")
        return float(end_event._event.end_in_ns() - self._event.end_in_ns()) / 1e6


def current_stream(device: Any = None) -> Stream:
    """Return the stream that new work of this thread joins."""
    return Stream(_handle=_native.current_stream(_index(device)))


def default_stream(device: Any = None) -> Stream:
    """Return the stream that threads begin with."""
    return Stream(_handle=_native.default_stream(_index(device)))


def set_stream(stream: Stream) -> None:
    """Make a stream the current one of its device in this thread."""
    _native.set_stream(stream._handle)


@contextlib.contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Block in which a stream is the current one of its device; None changes nothing."""
    if stream is None:
        yield
        return
    before = current_stream(stream.device)
    set_stream(stream)
    try:
        yield
    finally:
        set_stream(before)


# --- random numbers -------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Set the seed of the current device's default generator."""
    flambeau.utils.privateuse1_generator(current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Set the seed of the default generators of all devices."""
    for index in range(device_count()):
        flambeau.utils.privateuse1_generator(index).manual_seed(int(seed))


def initial_seed() -> int:
    """Return the seed of the current device's default generator."""
    return int(flambeau.utils.privateuse1_generator(current_device()).initial_seed())


def get_rng_state(device: Any = None) -> Any:
    """Return the state of a device's default generator."""
    return flambeau.utils.privateuse1_generator(_index(device)).get_state()


def set_rng_state(new_state: Any, device: Any = None) -> None:
    """Set the state of a device's default generator."""
    flambeau.utils.privateuse1_generator(_index(device)).set_state(new_state)


def get_amp_supported_dtype() -> list[Any]:
    """Return the dtypes of autocast: the kernels compute in float32 alone, so these run on the CPU."""
    return [flambeau.bfloat16, flambeau.float16]


def _install() -> None:
    if not is_available():
        raise ImportError("flambeau_opencl: OpenCL found no device; install an ICD such as pocl-opencl-icd")
    flambeau.utils.rename_privateuse1_backend(KIND)
    _native.register_backend()
    flambeau._register_device_module(KIND, sys.modules[__name__])
    flambeau.utils.generate_methods_for_privateuse1_backend(for_storage=True)


_install()
