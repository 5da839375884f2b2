"""The CPU, asked as devices are: one device with one stream, whose work is done when it is asked for."""

from __future__ import annotations

from typing import Any

from flambeau._lazy import attributes

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
        """Wait for the work of another stream, which is done."""

    def record_event(self) -> Event:
        """Return a mark."""
        return Event()

    def wait_event(self, event: Event) -> None:
        """Wait for a mark, which is reached."""


class Event:
    """A mark in a queue of work, which is reached."""

    def query(self) -> bool:
        """Whether it is reached: always."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Set the mark."""

    def synchronize(self) -> None:
        """Wait for it: it is reached."""

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for it: it is reached."""


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
    """Whether there is a CPU: always."""
    return True


def is_initialized() -> bool:
    """Whether it is in use: always."""
    return True


def synchronize(device: Any = None) -> None:
    """Wait for all work, which is done."""


def device_count() -> int:
    """Return the number of devices: 1."""
    return 1


def set_device(device: Any) -> None:
    """Choose the device, of which there is one."""


def current_device() -> str:
    """Return the device."""
    return "cpu"


def get_capabilities() -> dict[str, Any]:
    """Return what the processor can do, and its architecture."""
    import platform
    from pathlib import Path

    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.is_file() else []
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    known = {"avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "fma", "f16c"}
    return {"architecture": platform.machine(), **{name: name in flags for name in sorted(known)}}


__getattr__, __dir__ = attributes(__name__)
