"""Events of a profile, lists of them, and averages by name."""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

from flambeau._loading.lazy import attributes
from flambeau.autograd._event_table import TableWriter, format_memory, format_time, format_time_share
from flambeau.autograd._function_events import (
    DeviceType,
    FormattedTimesMixin,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
)

__all__ = [
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
]

MEMORY_EVENT_NAME = "[memory]"
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"
_format_time, _format_time_share, _format_memory = format_time, format_time_share, format_memory


class EventList(list[Any]):
    """The events of a profile, in the order of their start.

    Args:
        *args: the events, as for `list`.
        **kwargs: `use_device`, `profile_memory` and `with_flops` of the profile.

    Example:
        >>> from flambeau.autograd.profiler_util import EventList, FunctionEvent
        >>> events = EventList([FunctionEvent(0, "f", 1, 0, 10), FunctionEvent(1, "f", 1, 20, 24)])
        >>> [event.name for event in events]
        ['f', 'f']
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._use_device = kwargs.pop("use_device", None)
        self._profile_memory: bool = kwargs.pop("profile_memory", False)
        self._with_flops: bool = kwargs.pop("with_flops", False)
        self._trace: Any = kwargs.pop("trace", None)
        super().__init__(*args, **kwargs)
        self._tree_built = False
        self._group_by_overload = False

    def _build_tree(self) -> None:
        """Find parents and children of events by their times."""
        by_thread: dict[Any, list[FunctionEvent]] = defaultdict(list)
        for event in self:
            if not event.is_async and event.device_type == DeviceType.CPU:
                by_thread[event.thread, event.node_id].append(event)
        for events in by_thread.values():
            _nest(sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end)))
        self._tree_built = True

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each without its children."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return the events as a table.

        Args:
            sort_by: an attribute of the events, such as ``"self_cpu_time_total"``; the largest comes first.
                The name of a device type stands for ``device``. None keeps the order.
            row_limit: the number of rows, at most; -1 for all.
            max_src_column_width: characters of source lines.
            max_name_column_width: characters of names.
            max_shapes_column_width: characters of input shapes.
            header: a line above.
            top_level_events_only: whether events within others are left out.
            time_unit: accepted; times have the unit that suits them.
        """
        if not self:
            return ""
        ordered = self
        if sort_by is not None:
            ordered = EventList(
                sorted(self, key=attrgetter(re.sub("cuda|xpu|privateuse1", "device", sort_by)), reverse=True),
                use_device=self._use_device,
                profile_memory=self._profile_memory,
                with_flops=self._with_flops,
            )
            ordered._group_by_overload = self._group_by_overload
        shown = [e for e in ordered if not top_level_events_only or e.cpu_parent is None]
        limits = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        writer = TableWriter(ordered, limits)
        return writer.write(shown if row_limit < 0 else shown[:row_limit], header, top_level_events_only)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing and Perfetto.

        Args:
            path: of the file, which is replaced.
        """
        from flambeau.autograd._chrome_trace import write_events

        write_events(self, path)

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return the names that `export_stacks` accepts."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total"]

    def export_stacks(self, path: str, metric: str) -> None:
        """Write a line per stack with the sum of a metric, for tools that draw flame graphs.

        Args:
            path: of the file, which is replaced.
            metric: one of `supported_export_stacks_metrics`.
        Raises: ValueError for another metric.
        """
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(
                f"export_stacks: expected one of {self.supported_export_stacks_metrics()}, got {metric}"
            )
        attribute = "self_cpu_time_total" if metric == "self_cpu_time_total" else "self_device_time_total"
        translated = str.maketrans(" ;\t\n", "____")
        with Path(path).open("w") as out:
            for event in self:
                value = int(getattr(event, attribute))
                if event.stack and value > 0:
                    lines = [line.translate(translated) for line in reversed(event.stack)]
                    out.write(f"{';'.join(lines)} {value}\n")

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Return a list with the sum of the events of each name.

        Args:
            group_by_input_shapes: whether events with different shapes of arguments are summed apart.
            group_by_stack_n: the number of innermost lines of the stack by which events are summed apart.
            group_by_overload_name: whether overloads of an operator are summed apart.
        """
        sums: dict[Any, FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shapes else None
            overload = event.overload_name if group_by_overload_name else None
            stack = tuple(event.stack[:group_by_stack_n])
            facts = (event.node_id, event.device_type, event.is_legacy, event.is_user_annotation)
            sums[(event.key, *facts, overload, shapes, stack)].add(event)
        averages = EventList(
            sums.values(),
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        for one in averages:
            one.stack = one.stack[:group_by_stack_n]
            one.input_shapes = one.input_shapes if group_by_input_shapes else ""
            one.overload_name = one.overload_name if group_by_overload_name else ""
        averages._group_by_overload = group_by_overload_name
        return averages

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all events, with the key "Total"."""
        total = FunctionEventAvg()
        for event in self:
            total.key = event.key if total.count else None
            total.add(event)
        total.key = "Total"
        return total


def _nest(events: list[FunctionEvent]) -> None:
    """Give events of one thread, in the order of their start, their parents."""
    running: list[FunctionEvent] = []
    for event in events:
        while running and running[-1].time_range.end <= event.time_range.start:
            running.pop()
        while running and running[-1].time_range.end < event.time_range.end:
            running.pop()
        if running:
            running[-1].append_cpu_child(event)
            event.set_cpu_parent(running[-1])
        running.append(event)


class StringTable(defaultdict[Any, str]):
    """Names by themselves; a missing key is its own value.

    Example:
        >>> from flambeau.autograd.profiler_util import StringTable
        >>> StringTable()["add"]
        'add'
    """

    def __missing__(self, key: Any) -> str:
        self[key] = str(key)
        return self[key]


class MemRecordsAcc:
    """Memory events by time.

    Args:
        mem_records: pairs whose first is an event with `start_ns()`.

    Example:
        >>> from flambeau.autograd.profiler_util import MemRecordsAcc
        >>> list(MemRecordsAcc([]).in_interval(0, 10))
        []
    """

    def __init__(self, mem_records: Iterable[Any]) -> None:
        self._records = sorted(mem_records, key=lambda record: record[0].start_ns())
        self._times = [record[0].start_ns() for record in self._records]

    def in_interval(self, start_us: float, end_us: float) -> Iterator[Any]:
        """Yield the records from one time to another, in nanoseconds as `start_ns()`."""
        first = bisect.bisect_left(self._times, start_us * 1000)
        last = bisect.bisect_right(self._times, end_us * 1000)
        yield from self._records[first:last]


__getattr__, __dir__ = attributes(__name__)
