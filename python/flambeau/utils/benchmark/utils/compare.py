"""A table of measurements."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from flambeau.utils.benchmark.utils.common import (
    Measurement,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)

__all__ = ["Colorize", "Compare"]

_GREEN, _RED, _END = "\033[92m", "\033[91m", "\033[0m"


class Colorize(enum.Enum):
    """The groups within which the fastest and the slowest time are coloured."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Tables of measurements: one table per label, with a row per sub-label and a column per description.

    Args:
        results: the measurements; those of one task are merged.

    Example:
        >>> from flambeau.utils.benchmark import Compare, Timer
        >>> timer = Timer("x + 1", globals={"x": flambeau.ones(2)}, label="add", description="ones")
        >>> table = str(Compare([timer.timeit(10)]))
        >>> "add" in table and "ones" in table
        True
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = False
        self._colorize = Colorize.NONE
        self._highlight_warnings = False

    def __str__(self) -> str:
        return "\n".join(self._render())

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        results = list(results)
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Compare: expected Measurement objects, got {type(result).__name__}")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show only digits that the spread of the times leaves."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the fastest and slowest times of columns, or of rows."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark times that spread by more than a tenth of their median with ``(! XX%)``."""
        self._highlight_warnings = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def _render(self) -> list[str]:
        merged = Measurement.merge(self._results)
        groups: dict[str | None, list[Measurement]] = {}
        for one in merged:
            groups.setdefault(one.label, []).append(one)
        return [self._table(group) for group in groups.values()]

    def _cell(self, one: Measurement | None, scale: float, mark: str) -> str:
        if one is None:
            return ""
        value = one.median / scale
        text = f"{trim_sigfig(value, one.significant_figures):g}" if self._trim else f"{value:.1f}"
        if self._highlight_warnings and one.has_warnings:
            text += f" (! {100 * one.iqr / one.median:.0f}%)"
        return f"{mark}{text}{_END}" if mark else text

    def _marks(self, cells: dict[Any, Measurement]) -> dict[Any, str]:
        """Return the colour of the fastest and the slowest entry of each line."""
        if self._colorize is Colorize.NONE:
            return {}
        axis = 0 if self._colorize is Colorize.ROWWISE else 1
        marks = {}
        for line in ordered_unique(key[axis] for key in cells):
            keys = sorted((k for k in cells if k[axis] == line), key=lambda k: cells[k].median)
            if len(keys) > 1:
                marks[keys[-1]] = _RED
                marks[keys[0]] = _GREEN
        return marks

    def _table(self, group: list[Measurement]) -> str:
        unit, scale = select_unit(min(one.median for one in group))
        columns = ordered_unique(one.description or "" for one in group)
        rows = ordered_unique((one.num_threads, one.env, one.as_row_name) for one in group)
        cells = {((one.num_threads, one.env, one.as_row_name), one.description or ""): one for one in group}
        marks = self._marks(cells)
        lines = []
        for row in rows:
            threads, env, name = row
            several = len({r[1] for r in rows}) > 1
            texts = [self._cell(cells.get((row, c)), scale, marks.get((row, c), "")) for c in columns]
            lines.append((threads, f"({env})  {name}" if several else name, texts))
        return self._laid_out(group[0].label, columns, lines, unit)

    def _laid_out(
        self, label: str | None, columns: list[str], lines: list[tuple[int, str, list[str]]], unit: str
    ) -> str:
        first = max(len("1 threads: "), *(len(name) for _, name, _ in lines)) + 6
        widths = [max(len(c), *(len(texts[i]) for *_, texts in lines)) for i, c in enumerate(columns)]
        head = " " * first + "".join(f"|  {c.center(w)}  " for c, w in zip(columns, widths, strict=True))
        title = f" {label} " if label else " "
        out = ["[" + title.center(max(len(head) - 2, len(title)), "-") + "]", head.rstrip()]
        before = None
        for threads, name, texts in lines:
            if threads != before:
                out.append(f"{threads} threads: ".ljust(len(head), "-"))
                before = threads
            body = "".join(f"|  {t.rjust(w)}  " for t, w in zip(texts, widths, strict=True))
            out.append((f"      {name}".ljust(first) + body).rstrip())
        return "\n".join([*out, "", f"Times are in {unit_to_english(unit)}s ({unit}).", ""])
