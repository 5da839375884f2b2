"""Events that a program reports, handlers that receive them, and statistics that are reported per window.

>>> handle = register_event_handler(lambda event: print(event.name, event.data))
>>> log_event(Event("epoch", datetime.datetime(2026, 1, 1), {"loss": 0.5}))
epoch {'loss': 0.5}
>>> unregister_event_handler(handle)
"""

from __future__ import annotations

import datetime
import enum
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

from flambeau._loading.lazy import attributes

STAT_EVENT = "torch.monitor.Stat"


class data_value_t:
    """The type of an event's values: str, float, int or bool. It has no instances.

    Args:
        *args: refused.
        **kwargs: refused.

    Raises: TypeError for each call.

    Example:
        >>> flambeau.monitor.data_value_t.__name__
        'data_value_t'
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to make an instance."""
        raise TypeError(f"{cls.__name__}: expected no call, got one; the class only names a type")


class EventHandlerHandle:
    """What `register_event_handler` returns and `unregister_event_handler` takes.

    Args:
        *args: refused.
        **kwargs: refused.

    Raises: TypeError for each call; `register_event_handler` makes the instances.

    Example:
        >>> handle = flambeau.monitor.register_event_handler(print)
        >>> isinstance(handle, flambeau.monitor.EventHandlerHandle)
        True
        >>> flambeau.monitor.unregister_event_handler(handle)
    """

    _callback: Callable[[Event], None]

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to make an instance."""
        raise TypeError(f"{cls.__name__}: expected no call, got one; register_event_handler returns handles")


class Event:
    """Event of a program, with a name, a time and values.

    Args:
        name: the type of the event; events of one name have the same keys.
        timestamp: the time of the event.
        data: the values by key: str, float, int or bool.
    Raises: TypeError for other types, ValueError for an int of more than 64 bits.

    Example:
        >>> import datetime
        >>> event = flambeau.monitor.Event("epoch", datetime.datetime(2024, 1, 1), {"loss": 0.5})
        >>> event.name, event.data
        ('epoch', {'loss': 0.5})
    """

    def __init__(self, name: str, timestamp: datetime.datetime, data: Mapping[str, Any]) -> None:
        self.name, self.timestamp, self.data = name, timestamp, data

    def __setattr__(self, name: str, value: Any) -> None:
        kinds: dict[str, type] = {"name": str, "timestamp": datetime.datetime, "data": Mapping}
        if (expected := kinds.get(name)) is None:
            raise AttributeError(f"Event: expected name, timestamp or data, got {name}", name=name, obj=self)
        if not isinstance(value, expected):
            raise TypeError(f"Event: expected {expected.__name__} as {name}, got {value!r}")
        super().__setattr__(name, _checked(cast(Any, value)) if name == "data" else value)


def _checked(data: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in data.items():
        if not isinstance(key, str) or not isinstance(value, str | float | int):
            raise TypeError(f"Event: expected str, float, int or bool by str, got {value!r} by {key!r}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"Event: expected an int of 64 bits by {key!r}, got {value}")
    return dict(data)


_handles: list[EventHandlerHandle] = []
_lock = threading.Lock()


def register_event_handler(callback: Callable[[Event], None]) -> EventHandlerHandle:
    """Call a function with each event that is logged from now on, in the thread that logs it.

    Args:
        callback: a function of an `Event`.

    Returns: a handle for `unregister_event_handler`.

    Raises: TypeError for what cannot be called.

    Example:
        >>> handle = flambeau.monitor.register_event_handler(lambda event: print(event.name))
        >>> flambeau.monitor.unregister_event_handler(handle)
    """
    if not callable(callback):
        raise TypeError(f"register_event_handler: expected a function, got {callback!r}")
    handle: Any = object.__new__(cast(Any, EventHandlerHandle))
    handle._callback = callback
    with _lock:
        _handles.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Remove a handler; one that is not registered is ignored.

    Args:
        handler: the handle that `register_event_handler` returned.

    Returns: None.

    Raises: TypeError for another type.

    Example:
        >>> handle = flambeau.monitor.register_event_handler(print)
        >>> flambeau.monitor.unregister_event_handler(handle)
    """
    if not isinstance(handler, EventHandlerHandle):
        raise TypeError(f"unregister_event_handler: expected an EventHandlerHandle, got {handler!r}")
    with _lock:
        _handles[:] = [handle for handle in _handles if handle is not handler]


def log_event(event: Event) -> None:
    """Give an event to all handlers; without any, nothing happens. An exception of a handler is raised.

    Args:
        event: the event.

    Returns: None.

    Raises: TypeError for another type.

    Example:
        >>> import datetime
        >>> handle = flambeau.monitor.register_event_handler(lambda event: print(event.name, event.data))
        >>> event = flambeau.monitor.Event("epoch", datetime.datetime(2024, 1, 1), {"loss": 0.5})
        >>> flambeau.monitor.log_event(event)
        epoch {'loss': 0.5}
        >>> flambeau.monitor.unregister_event_handler(handle)
    """
    if not isinstance(event, Event):
        raise TypeError(f"log_event: expected an Event, got {event!r}")
    with _lock:
        handles = list(_handles)
    for handle in handles:
        handle._callback(event)


class Aggregation(enum.Enum):
    """What `Stat` makes of the values of a window: the last one, or their mean, number, sum or extremes.

    Example:
        >>> flambeau.monitor.Aggregation.MEAN.name
        'MEAN'
    """

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6

    def __index__(self) -> int:
        return int(self.value)

    __int__ = __index__


_FUNCTIONS: dict[Aggregation, Callable[[Sequence[float]], float]] = {
    Aggregation.VALUE: lambda values: values[-1],
    Aggregation.MEAN: lambda values: sum(values) / len(values),
    Aggregation.COUNT: lambda values: float(len(values)),
    Aggregation.SUM: lambda values: float(sum(values)),
    Aggregation.MAX: max,
    Aggregation.MIN: min,
}


class Stat:
    """Collects values and logs their statistics as an event at the end of each window of time.

    The event's name is `STAT_EVENT`; its keys are such as ``loss.mean``. A window is closed by the first
    `add` after its end, by its `max_samples`-th value, after which further values of the window are dropped,
    or by the end of this object.

    Args:
        name: the first part of the keys.
        aggregations: the statistics. `Aggregation.VALUE` is reported too, which PyTorch leaves out.
        window_size: length of a window, a timedelta or seconds; more than 0.
        max_samples: values per window. Default: no limit

    Raises: TypeError for aggregations of another type, ValueError for a window that is not above 0.

    Example:
        >>> import datetime
        >>> kinds = [flambeau.monitor.Aggregation.MEAN]
        >>> stat = flambeau.monitor.Stat("loss", kinds, datetime.timedelta(hours=1))
        >>> stat.add(0.5)
        >>> stat.name, stat.count
        ('loss', 1)
    """

    _values: list[float] = []  # noqa: RUF012  (what __del__ sees if __init__ failed)

    def __init__(
        self,
        name: str,
        aggregations: Sequence[Aggregation],
        window_size: datetime.timedelta | float,
        max_samples: int = 2**63 - 1,
    ) -> None:
        if not isinstance(aggregations, Sequence) or not all(
            isinstance(a, Aggregation) for a in aggregations
        ):
            raise TypeError(f"Stat: expected a sequence of Aggregation, got {aggregations!r}")
        if not isinstance(window_size, datetime.timedelta):
            window_size = datetime.timedelta(seconds=window_size)
        if window_size <= datetime.timedelta(0):
            raise ValueError(f"Stat: expected window_size > 0, got {window_size}")
        self._name, self._aggregations = name, tuple(dict.fromkeys(aggregations))
        self._seconds, self._max_samples = window_size.total_seconds(), max_samples
        self._window, self._full = self._current_window(), False
        self._last = dict.fromkeys(self._aggregations, 0.0)
        self._values = []
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        """The first part of the keys."""
        return self._name

    @property
    def count(self) -> int:
        """The number of values in the open window."""
        return len(self._values)

    def add(self, v: float) -> None:
        """Add a value to the open window."""
        if isinstance(v, str) or not (hasattr(v, "__float__") or hasattr(v, "__index__")):
            raise TypeError(f"Stat.add: expected a number, got {v!r}")
        with self._lock:
            window = self._current_window()
            if window != self._window:
                self._close()
                self._window, self._full = window, False
            if self._full:
                return
            self._values.append(float(v))
            if len(self._values) >= self._max_samples:
                self._full = True
                self._close()

    def get(self) -> dict[Aggregation, float]:
        """Return the statistics of the last closed window; zeros before there is one."""
        return dict(self._last)

    def __del__(self) -> None:
        self._close()

    def _current_window(self) -> int:
        return int(time.monotonic() // self._seconds)

    def _close(self) -> None:
        values, self._values = self._values, []
        if not values:
            return
        self._last = {kind: _FUNCTIONS[kind](values) for kind in self._aggregations}
        data = {f"{self._name}.{kind.name.lower()}": value for kind, value in self._last.items()}
        log_event(Event(STAT_EVENT, datetime.datetime.now(), data))


class TensorboardEventHandler:
    """A handler that writes the statistics of `Stat` as scalars; other events are ignored.

    Args:
        writer: a `flambeau.utils.tensorboard.SummaryWriter`.

    Example:
        >>> class Writer:
        ...     def add_scalar(self, key, value, walltime):
        ...         print(key, value)
        >>> handler = flambeau.monitor.TensorboardEventHandler(Writer())
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        """Write the values of an event."""
        if event.name == STAT_EVENT:
            for key, value in event.data.items():
                self._writer.add_scalar(key, value, walltime=event.timestamp.timestamp())


__getattr__, __dir__ = attributes(__name__)
