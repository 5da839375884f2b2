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
    """Queue of work of the CPU, which is always empty: each call returns when its work is done.

    Args:
        priority: accepted for compatibility.

    Example:
        >>> stream = flambeau.cpu.Stream()
        >>> stream.wait_stream(flambeau.cpu.current_stream())
    """

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
    """Marker in a queue of work, which is always reached on the CPU.

    Example:
        >>> flambeau.cpu.Event().query()
        True
    """

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
    """Block in which a stream is the current one.

    Args:
        stream: the stream; None has no effect.

    Example:
        >>> stream = flambeau.cpu.Stream()
        >>> with flambeau.cpu.StreamContext(stream):
        ...     flambeau.cpu.current_stream() is stream
        True
    """

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
    """Return a block in which a stream is the current one.

    Args:
        stream: the stream; None has no effect.
    Returns: a `StreamContext`.

    Example:
        >>> stream = flambeau.cpu.Stream()
        >>> with flambeau.cpu.stream(stream):
        ...     flambeau.cpu.current_stream() is stream
        True
    """
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """Return the current stream.

    Args:
        device: accepted for compatibility; there is one CPU device.
    Returns: a `Stream`.

    Example:
        >>> flambeau.cpu.current_stream() is flambeau.cpu.current_stream()
        True
    """
    return _current


def is_available() -> bool:
    """Return True: there is always a CPU.

    Returns: True.

    Example:
        >>> flambeau.cpu.is_available()
        True
    """
    return True


def is_initialized() -> bool:
    """Return True: the CPU needs no initialisation.

    Returns: True.

    Example:
        >>> flambeau.cpu.is_initialized()
        True
    """
    return True


def synchronize(device: Any = None) -> None:
    """Return at once: all work on the CPU is finished when its call returns.

    Args:
        device: accepted for compatibility; there is one CPU device.
    Returns: None.

    Example:
        >>> flambeau.cpu.synchronize()
    """


def device_count() -> int:
    """Return 1, the number of CPU devices.

    Returns: 1.

    Example:
        >>> flambeau.cpu.device_count()
        1
    """
    return 1


def set_device(device: Any) -> None:
    """Keep the only CPU device as the current one.

    Args:
        device: accepted for compatibility; there is one CPU device.
    Returns: None.

    Example:
        >>> flambeau.cpu.set_device("cpu")
        >>> flambeau.cpu.current_device()
        'cpu'
    """


def current_device() -> str:
    """Return the name of the current device.

    Returns: "cpu".

    Example:
        >>> flambeau.cpu.current_device()
        'cpu'
    """
    return "cpu"


def get_capabilities() -> dict[str, Any]:
    """Return the architecture of the processor and its instruction sets.

    Returns: a dict with the key "architecture", and a bool for each instruction set, such as "avx2".

    Example:
        >>> flambeau.cpu.get_capabilities()["architecture"] in ("x86_64", "AMD64", "aarch64", "arm64")
        True
    """
    import platform
    from pathlib import Path

    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.is_file() else []
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    known = {"avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "fma", "f16c"}
    return {"architecture": platform.machine(), **{name: name in flags for name in sorted(known)}}


__getattr__, __dir__ = attributes(__name__)
