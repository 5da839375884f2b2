"""Stream and Event: queues of work on a device. The CPU ends each call before it returns."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from flambeau import _C
from flambeau._types import naming

_NUMBER_OF_KIND = {"cpu": 0, "meta": 14}


def _device_of(device: Any, owner: str) -> _C.device:
    """Return where the queue is; without an accelerator a bare index means no device."""
    if device is None:
        return _C.device("cpu")
    if isinstance(device, int):
        raise RuntimeError(f"{owner}: device {device} means an accelerator, and none is available")
    if not isinstance(device, str | _C.device):
        raise TypeError(f"{owner}: expected device to be a string or device, got {type(device).__name__}")
    found = _C.device(device)
    if found.type not in _NUMBER_OF_KIND:
        raise RuntimeError(f"{owner}: flambeau is built without support for {found.type} devices")
    return _C.device(found.type)


def _refuse_events(device: _C.device) -> None:
    raise RuntimeError(
        f"Event: {device.type} backend doesn't support events; every call ends before it returns, "
        "so none is needed"
    )


class Stream:
    """A queue of work.

    Args:
        device: "cpu" or "meta". Default: the CPU, there is no accelerator.
        priority: accepted; there is one queue.
        stream_id, device_index, device_type: instead of `device`, the numbers of an existing stream.

    >>> Stream().query()
    True
    """

    __slots__ = ("device", "device_index", "device_type", "stream_id")

    def __init__(
        self,
        device: Any = None,
        *,
        priority: int = 0,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
    ) -> None:
        numbers = (stream_id, device_index, device_type)
        if None in numbers and any(number is not None for number in numbers):
            raise TypeError(
                f"Stream: expected stream_id, device_index and device_type together, got {numbers}"
            )
        if stream_id is None or device_index is None or device_type is None:
            self.device = _device_of(device, "Stream")
            self.stream_id, self.device_index = 0, -1
        else:
            kinds = {number: kind for kind, number in _NUMBER_OF_KIND.items()}
            if device_type not in kinds:
                raise RuntimeError(
                    f"Stream: no device has the type {device_type}; use a device of this machine"
                )
            self.device = _C.device(kinds[device_type])
            self.stream_id, self.device_index = stream_id, device_index
        self.device_type = _NUMBER_OF_KIND[self.device.type]

    def query(self) -> bool:
        """Whether all work has ended: always."""
        return True

    def synchronize(self) -> None:
        """Wait for all work; there is none left."""

    def is_capturing(self) -> bool:
        """Whether calls go to a graph of a device: never."""
        return False

    def wait_event(self, event: Event) -> None:
        """Let later work wait for an event; an event of the CPU has happened."""
        if not isinstance(event, Event):
            raise RuntimeError(f"Stream.wait_event: expected an Event, got {type(event).__name__}")

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event; RuntimeError, as the CPU has none."""
        _refuse_events(self.device)
        raise AssertionError

    def wait_stream(self, stream: Stream) -> None:
        """Wait for another stream through an event; RuntimeError, as the CPU has none."""
        _refuse_events(self.device)

    @property
    def native_handle(self) -> int:
        """The address of the device's own object; RuntimeError, as the CPU has none."""
        raise RuntimeError(
            "Stream.native_handle: the backend doesn't support getting stream native handle; it has "
            "no streams"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def _key(self) -> tuple[int, int, int]:
        return self.device_type, self.device_index, self.stream_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"{naming.root}.Stream device_type={self.device.type}, device_index={self.device_index}, "
            f"stream_id={self.stream_id}"
        )


class Event:
    """A point in a stream. The CPU cannot record one: what needs that raises RuntimeError.

    Args:
        device: "cpu" or "meta". Default: the CPU.
        enable_timing: whether `elapsed_time` may be asked.
        blocking: accepted; waiting takes no time.
        interprocess: accepted; events do not leave the process.
    """

    __slots__ = ("_is_timed", "device", "event_id")

    def __init__(
        self,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = _device_of(device, "Event")
        self._is_timed, self.event_id = enable_timing, 0

    def query(self) -> bool:
        """Whether what was recorded has happened: always."""
        return True

    def synchronize(self) -> None:
        """Wait until what was recorded has happened; it has."""

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for the event, which has happened."""

    def record(self, stream: Stream | None = None) -> None:
        """Record the event; RuntimeError, as the CPU has none."""
        _refuse_events(self.device)

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds to another event; ValueError, as neither can be recorded."""
        if not (self._is_timed and end_event._is_timed):
            raise ValueError(
                "Event.elapsed_time: expected two events made with 'enable_timing=True', got one without "
                "timing"
            )
        raise ValueError(
            "Event.elapsed_time: expected two recorded events, got unrecorded ones, since both "
            "events must be recorded and the CPU cannot do so"
        )

    def ipc_handle(self) -> bytes:
        """Return what names the event in other processes; NotImplementedError."""
        raise NotImplementedError("Event.ipc_handle: events do not leave the process")

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        """Return another process's event; NotImplementedError."""
        raise NotImplementedError("Event.from_ipc_handle: events do not leave the process")

    def __repr__(self) -> str:
        return (
            f"{naming.root}.Event device_type={self.device.type}, device_index=-1, "
            f"event_flag={int(self._is_timed)}, event_id={self.event_id}"
        )
