"""Timed tasks and their measurements."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = [
    "Measurement",
    "TaskSpec",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "trim_sigfig",
    "unit_to_english",
]

_UNITS = {
    "ns": (1e-9, "nanosecond"),
    "us": (1e-6, "microsecond"),
    "ms": (1e-3, "millisecond"),
    "s": (1.0, "second"),
}


@dataclass(frozen=True)
class TaskSpec:
    """Statement of a timer, with the labels by which `Compare` sorts it.

    Args:
        stmt: the statement.
        setup: the code that runs once before.
        global_setup: code in C++; unused.
        label: the table.
        sub_label: the row. None means the statement.
        description: the column.
        env: the name of the environment, where several are compared.
        num_threads: the number of threads.

    Example:
        >>> from flambeau.utils.benchmark import TaskSpec
        >>> TaskSpec("x + 1", "pass", label="add").title
        'add'
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, with the line below it; the statement if there is none."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.sub_label or self.stmt.replace("\n", "\\n")

    def setup_str(self) -> str:
        """Return the setup for a report."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n{_indented(self.setup)}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Return title, description, threads and setup for a report."""
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        parts = [self.title, self.description or "", self.setup_str(), threads]
        return "\n".join(part for part in parts if part)


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.strip().splitlines())


@dataclass(repr=False)
class Measurement:
    """Times of one statement.

    Args:
        number_per_run: the number of executions in each time.
        raw_times: the times, in seconds, each of `number_per_run` executions.
        task_spec: the statement and its labels.
        metadata: further data of the caller.

    Example:
        >>> from flambeau.utils.benchmark import Measurement, TaskSpec
        >>> Measurement(10, [0.5, 0.7, 0.6], TaskSpec("f()", "pass")).median
        0.06
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        """Seconds of one execution, one entry per run."""
        return [t / self.number_per_run for t in self.raw_times]

    def _checked(self) -> list[float]:
        if not self.raw_times:
            raise RuntimeError("Measurement: there are no times")
        return sorted(self.times)

    @property
    def median(self) -> float:
        """The median of the times."""
        return statistics.median(self._checked())

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return statistics.fmean(self._checked())

    @property
    def iqr(self) -> float:
        """The distance of the first and the third quartile of the times."""
        times = self._checked()
        return _quantile(times, 0.75) - _quantile(times, 0.25)

    @property
    def significant_figures(self) -> int:
        """The digits that are beyond the 90% interval of a normal distribution of the same spread."""
        from math import ceil, log10, sqrt

        spread = max(self.iqr / 1.349, self.median * 1e-9) / sqrt(len(self.raw_times))
        digits = ceil(log10(max(self.median / (1.645 * spread), 1.0)))
        return max(1, min(digits, 3))

    @property
    def has_warnings(self) -> bool:
        """Whether the times spread by more than a tenth of their median."""
        return self.iqr > 0.1 * self.median

    @property
    def num_threads(self) -> int:
        """Threads that the statement ran with."""
        return self.task_spec.num_threads

    @property
    def stmt(self) -> str:
        """The statement."""
        return self.task_spec.stmt

    @property
    def setup(self) -> str:
        """What ran before it."""
        return self.task_spec.setup

    @property
    def label(self) -> str | None:
        """The table in which `Compare` puts it."""
        return self.task_spec.label

    @property
    def sub_label(self) -> str | None:
        """The row."""
        return self.task_spec.sub_label

    @property
    def description(self) -> str | None:
        """The column."""
        return self.task_spec.description

    @property
    def env(self) -> str:
        """Which of several environments it was measured in."""
        return self.task_spec.env or "Unspecified env"

    @property
    def title(self) -> str:
        """The label, or the statement."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """The name of its row in a table."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        spread = f"  IQR:    {self.iqr / scale:.2f} {unit}" if len(self.raw_times) > 1 else ""
        runs = f"  {len(self.raw_times)} measurement{'s' if len(self.raw_times) > 1 else ''}, "
        lines = [
            super().__repr__(),
            self.task_spec.summarize(),
            f"  Median: {self.median / scale:.2f} {unit}",
        ]
        return "\n".join(
            [*lines, *([spread] if spread else []), runs + f"{self.number_per_run} runs per measurement"]
        )

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Return one measurement per task, with the times of all of that task."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for one in measurements:
            groups.setdefault(one.task_spec, []).append(one)
        return [
            replace(group[0], number_per_run=1, raw_times=[t for one in group for t in one.times])
            for group in groups.values()
        ]


def _quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def select_unit(t: float) -> tuple[str, float]:
    """Choose the unit of time in which a number is between 1 and 1000.

    Args:
        t: the time in seconds.
    Returns: the name of the unit and its length in seconds.

    Example:
        >>> from flambeau.utils.benchmark import select_unit
        >>> select_unit(0.002)
        ('ms', 0.001)
    """
    fitting = [(unit, scale) for unit, (scale, _) in _UNITS.items() if scale <= t]
    return fitting[-1] if fitting else ("ns", 1e-9)


def unit_to_english(u: str) -> str:
    """Return the word for a unit."""
    return _UNITS[u][1]


def trim_sigfig(x: float, n: int) -> float:
    """Return `x` with `n` significant digits."""
    return float(f"{x:.{n - 1}e}")


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Remove repetitions from a sequence and keep its order.

    Args:
        elements: hashable elements.
    Returns: a list.

    Example:
        >>> from flambeau.utils.benchmark import ordered_unique
        >>> ordered_unique([3, 1, 3])
        [3, 1]
    """
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Compute with `n` threads within the block."""
    import flambeau

    before = flambeau.get_num_threads()
    try:
        flambeau.set_num_threads(n)
        yield
    finally:
        flambeau.set_num_threads(before)
