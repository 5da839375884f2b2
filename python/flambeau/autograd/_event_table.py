"""Text tables of profiled events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_NARROWEST = 12  # columns of numbers
_GAP = 2
_FLOP_UNITS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


def format_time(us: float) -> str:
    """Write microseconds in the unit in which the number is at least 1."""
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def format_time_share(us: float, total_us: float) -> str:
    """Write a time as a percentage of a total; "NaN" where the total is 0."""
    if total_us == 0:
        if us != 0:
            raise AssertionError(f"format_time_share: expected 0 us of a total of 0, got {us}")
        return "NaN"
    return f"{us * 100 / total_us:.2f}%"


def format_memory(nbytes: float) -> str:
    """Write a number of bytes, which may be negative, in B, KB, MB or GB."""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(nbytes) >= 1024**power:
            return f"{nbytes / 1024**power:.2f} {unit}"
    return f"{nbytes} B"


def _shortened(text: str, width: int | None) -> str:
    return text if width is None or len(text) <= width else text[: width - 3] + "..."


class _Table:
    """Rows of cells, whose columns are as wide as declared."""

    def __init__(self) -> None:
        self.headers: list[str] = []
        self.formats: list[str] = []
        self.widths: list[int] = []

    def add(self, header: str, width: int = _NARROWEST, left: bool = False) -> None:
        width = max(width, _NARROWEST) if header != "Name" else width
        self.headers.append(header)
        self.widths.append(width)
        self.formats.append(f"{{:{'<' if left else '>'}{width}}}" + " " * _GAP)

    def row(self, cells: Sequence[str]) -> str:
        return "".join(form.format(cell) for form, cell in zip(self.formats, cells, strict=True))

    @property
    def rule(self) -> str:
        return "".join("-" * width + " " * _GAP for width in self.widths)

    @property
    def length(self) -> int:
        return sum(self.widths) + _GAP * (len(self.widths) - 1)


def _width(texts: Any, limit: int | None) -> int:
    """Return the width of a column of names: the longest one and 4, at most the limit."""
    longest = max((len(text) for text in texts), default=0) + 4
    return longest if limit is None else min(longest, limit)


class TableWriter:
    """Writes the table of a list of events.

    Args:
        events: an EventList.
        limits: the widths of names, shapes and source lines, at most; None for any of them: no limit.
    """

    def __init__(self, events: Any, limits: tuple[int | None, int | None, int | None]) -> None:
        self.events = events
        self.name_limit, self.shapes_limit, self.source_limit = limits
        self.has_memory: bool = events._profile_memory
        self.has_shapes = any(event.input_shapes for event in events)
        self.has_overloads = bool(getattr(events, "_group_by_overload", False))
        stacks = [event.stack for event in events if event.stack]
        self.has_stack = bool(stacks)
        self.source_width = _width((line for stack in stacks for line in stack), self.source_limit)
        self.flop_scale = self._flop_scale() if events._with_flops else None
        self.total = events.self_cpu_time_total

    def _flop_scale(self) -> int | None:
        """Return the power of 1000 in which the smallest count of operations is at least 1."""
        counts = [event.flops for event in self.events if event.flops and event.flops > 0]
        if not counts:
            return None
        scale, least = 0, min(counts)
        while least >= 1000 and scale < len(_FLOP_UNITS) - 1:
            least, scale = least / 1000, scale + 1
        return scale

    def columns(self) -> _Table:
        """Return the table's columns, without rows."""
        table = _Table()
        table.add("Name", _width((event.key for event in self.events), self.name_limit))
        if self.has_overloads:
            table.add("Overload Name", _width((e.overload_name for e in self.events), self.name_limit))
        for header in ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"):
            table.add(header)
        if self.has_memory:
            table.add("CPU Mem")
            table.add("Self CPU Mem")
        table.add("# of Calls")
        if self.has_shapes:
            shapes = (str(event.input_shapes) for event in self.events)
            table.add("Input Shapes", _width(shapes, self.shapes_limit))
        if self.has_stack:
            table.add("Source Location", self.source_width, left=True)
        if self.flop_scale is not None:
            table.add(f"Total {_FLOP_UNITS[self.flop_scale]}")
        return table

    def cells(self, event: Any) -> list[str]:
        """Return the cells of one event."""
        cells = [_shortened(event.key, self.name_limit)]
        if self.has_overloads:
            cells.append(_shortened(event.overload_name, self.name_limit))
        cells += [
            format_time_share(event.self_cpu_time_total, self.total),
            event.self_cpu_time_total_str,
            format_time_share(event.cpu_time_total, self.total) if not event.is_async else "0",
            event.cpu_time_total_str,
            event.cpu_time_str,
        ]
        if self.has_memory:
            cells += [format_memory(event.cpu_memory_usage), format_memory(event.self_cpu_memory_usage)]
        cells.append(str(event.count))
        if self.has_shapes:
            cells.append(_shortened(str(event.input_shapes), self.shapes_limit))
        if self.has_stack:
            cells.append(self._source(event.stack[0]) if event.stack else "")
        if self.flop_scale is not None:
            flops = event.flops
            cells.append(f"{flops / 1000**self.flop_scale:8.3f}" if flops and flops > 0 else "--")
        return cells

    def _source(self, line: str) -> str:
        """Return the end of a source line that is too long: the file's last folders and the function."""
        limit = self.source_limit
        return line if limit is None or len(line) <= limit else "..." + line[3 - limit :]

    def more_of_stack(self, table: _Table, event: Any) -> list[str]:
        """Return the rows below an event's: the rest of its stack, and an empty row."""
        at = table.headers.index("Source Location")
        rows = []
        for line in [*event.stack[1:], ""]:
            cells = [""] * len(table.headers)
            cells[at] = self._source(line)
            rows.append(table.row(cells))
        return rows

    def write(self, shown: Sequence[Any], header: str | None, top_level_only: bool) -> str:
        """Return the text: rules, headers, one row per event, the total."""
        table = self.columns()
        lines = []
        if header is not None:
            lines += ["=" * table.length, header]
        if top_level_only:
            lines += ["=" * table.length, "This report only display top-level ops statistics"]
        lines += [table.rule, table.row(table.headers), table.rule]
        for event in shown:
            lines.append(table.row(self.cells(event)))
            if self.has_stack:
                lines += self.more_of_stack(table, event)
        lines += [table.rule, f"Self CPU time total: {format_time(self.total)}", ""]
        return "\n".join(lines)
