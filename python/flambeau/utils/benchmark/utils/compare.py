"""A table of measurements."""

from __future__ import annotations

import enum
import math
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

_Row = tuple[int, str, str]  # threads, environment, name
_Place = tuple[_Row, str]  # and the name of the column

_BOLD, _END = "\033[1m", "\033[0m"
# The colours of times by their ratio to the fastest: up to 1.01, up to 1.1, from 2 on, from 5 on.
_BEST, _GOOD, _BAD, _VERY_BAD = "\033[92m" + _BOLD, "\033[34m" + _BOLD, "\033[2m\033[91m", "\033[31m" + _BOLD


class Colorize(enum.Enum):
    """The groups within which times are coloured by their ratio to the fastest one.

    Example:
        >>> [one.value for one in flambeau.utils.benchmark.Colorize]
        ['none', 'columnwise', 'rowwise']
    """

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
        """Colour the fast and the slow times of columns, or of rows."""
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

    def _table(self, group: list[Measurement]) -> str:
        unit, scale = select_unit(min(one.median for one in group))
        names = ordered_unique(one.description or "" for one in group)
        rows = sorted(
            ordered_unique((one.num_threads, one.env, one.as_row_name) for one in group),
            key=lambda row: row[:2],
        )
        cells = {((one.num_threads, one.env, one.as_row_name), one.description or ""): one for one in group}
        marks = self._marks(cells)
        columns = [[name, *self._column(name, rows, cells, marks, scale)] for name in names]
        lines = self._laid_out(group[0].label, rows, columns)
        lines += ["", f"Times are in {unit_to_english(unit)}s ({unit})."]
        if self._highlight_warnings and any(one.has_warnings for one in group):
            lines.append("(! XX%) marks unsteady times, where XX is 100 * IQR / median.")
        return "\n".join([*lines, ""])

    def _column(
        self,
        name: str,
        rows: list[_Row],
        cells: dict[_Place, Measurement],
        marks: dict[_Place, str],
        scale: float,
    ) -> list[str]:
        """Return the texts of a column, numbers aligned to the right and each centred in its width."""
        found = [cells.get((row, name)) for row in rows]
        decimals = 1
        if self._trim:
            decimals = min((_decimals(one, scale) for one in found if one is not None), default=0)
        numbers, spreads = [], []
        for one in found:
            numbers.append("" if one is None else self._number(one, scale, decimals))
            spreads.append("" if one is None else self._spread(one))
        wide, spread_wide = max(map(len, numbers)), max(map(len, spreads))
        width = max(wide + spread_wide, len(name))
        texts = []
        for row, number, spread in zip(rows, numbers, spreads, strict=True):
            text = (number.rjust(wide) + spread.ljust(spread_wide)).center(width)
            mark = marks.get((row, name))
            texts.append(f"{mark}{text}{_END}{_END}" if mark else text)
        return [str(width), *texts]

    def _number(self, one: Measurement, scale: float, decimals: int) -> str:
        value = one.median / scale
        return f"{trim_sigfig(value, one.significant_figures) if self._trim else value:.{decimals}f}"

    def _spread(self, one: Measurement) -> str:
        if not (self._highlight_warnings and one.has_warnings):
            return ""
        return f" (! {100 * one.iqr / one.median:.0f}%)"

    def _marks(self, cells: dict[_Place, Measurement]) -> dict[_Place, str]:
        """Return the colours: against the fastest of a row, or of a column and number of threads."""
        if self._colorize is Colorize.NONE:
            return {}
        groups: dict[Any, list[_Place]] = {}
        for row, name in cells:
            line: Any = row if self._colorize is Colorize.ROWWISE else (row[0], name)
            groups.setdefault(line, []).append((row, name))
        marks: dict[_Place, str] = {}
        for places in groups.values():
            fastest = min(cells[place].median for place in places)
            marks |= {place: _colour(cells[place].median / fastest) for place in places}
        return marks

    @staticmethod
    def _laid_out(label: str | None, rows: list[_Row], columns: list[list[str]]) -> list[str]:
        heads = _row_heads(rows)
        first = max(map(len, heads))
        widths = [int(column[1]) for column in columns]
        tops = [name.center(width) for (name, *_), width in zip(columns, widths, strict=True)]
        line = "  |  ".join([" " * first, *tops])
        out = ["[" + f" {label or ''} ".center(len(line) - 2, "-") + "]", line]
        threads = None
        for i, (row, head) in enumerate(zip(rows, heads, strict=True)):
            if row[0] != threads:
                threads = row[0]
                out.append(f"{threads} threads: ".ljust(len(line), "-"))
            out.append("  |  ".join([head.ljust(first), *(column[2 + i] for column in columns)]))
        return out


def _row_heads(rows: list[_Row]) -> list[str]:
    """Return the first cells of the rows; the environment stands in the first row of its block."""
    environments = {env for _, env, _ in rows}
    if len(environments) == 1:
        return [f"      {name}" for *_, name in rows]
    wide = 2 + max(map(len, environments))
    heads, before = [], None
    for threads, env, name in rows:
        shown = f"({env})" if before != (threads, env) else ""
        before = threads, env
        heads.append(f"  {shown.ljust(wide)}  {name}")
    return heads


def _decimals(one: Measurement, scale: float) -> int:
    """Return how many significant digits of the median are behind the point."""
    value = one.median / scale
    before = math.floor(math.log10(value)) + 1 if value > 0 else 1
    return max(one.significant_figures - before, 0)


def _colour(ratio: float) -> str:
    if ratio <= 1.01 + 1e-9:
        return _BEST
    if ratio <= 1.1 + 1e-9:
        return _GOOD
    if ratio < 2:
        return ""
    return _BAD if ratio < 5 else _VERY_BAD
