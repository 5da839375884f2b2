"""The CPU under the interface of devices: one device with one stream, which runs work synchronously."""

from __future__ import annotations

from typing import Any

from flambeau._loading.lazy import attributes

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


class Stream:
    """The only queue of work, which is always empty."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Do nothing: the work of another stream is always finished."""

    def record_event(self) -> Event:
        """Return an event."""
        return Event()

    def wait_event(self, event: Event) -> None:
        """Do nothing: an event is always reached."""


class Event:
    """A mark in a queue of work. On the CPU it is always reached."""

    def query(self) -> bool:
        """Return True: the event is always reached."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Do nothing: the CPU has no queue to put the event in."""

    def synchronize(self) -> None:
        """Do nothing: the event is always reached."""

    def wait(self, stream: Stream | None = None) -> None:
        """Do nothing: no stream has to wait, as the event is always reached."""


_DEFAULT = Stream()
_current = _DEFAULT


class StreamContext:
    """A block in which a stream is the current one."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        global _current
        self.before = _current
        if self.stream is not None:
            _current = self.stream

    def __exit__(self, *exc: object) -> None:
        global _current
        _current = self.before


def stream(stream: Stream) -> StreamContext:
    """Return a block in which a stream is the current one."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """Return the current stream."""
    return _current


def is_available() -> bool:
    """Return True: there is always a CPU."""
    return True


def is_initialized() -> bool:
    """Return True: the CPU needs no initialisation."""
    return True


def synchronize(device: Any = None) -> None:
    """Do nothing: all work on the CPU is finished when its call returns."""


def device_count() -> int:
    """Return 1, the number of CPU devices."""
    return 1


def set_device(device: Any) -> None:
    """Do nothing: there is one CPU device."""


def current_device() -> str:
    """Return the device."""
    return "cpu"


def get_capabilities() -> dict[str, Any]:
    """Return the instruction sets of the processor, and its architecture."""
    import platform
    from pathlib import Path

    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.is_file() else []
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    known = {"avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "fma", "f16c"}
    return {"architecture": platform.machine(), **{name: name in flags for name in sorted(known)}}


__getattr__, __dir__ = attributes(__name__)
