"""Timed tasks and their measurements."""

from __future__ import annotations

import contextlib
import math
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

_MOST_DIGITS = 4
_SMALLEST_INTERVAL = 25e-9  # seconds
_SPREAD = 0.1  # of the median, from which times are called unsteady


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
        """The label and the sub-label; without a label, the statement takes its place."""
        if self.label:
            head = self.label
        else:
            head = f"stmt:\n{_indented(self.stmt)}" if "\n" in self.stmt else self.stmt
        return head + (f": {self.sub_label}" if self.sub_label else "")

    def setup_str(self) -> str:
        """Return the setup for a report."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n{_indented(self.setup)}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Return title, description and setup for a report; an empty line follows parts of several lines."""
        parts = (self.title, self.description or "", self.setup_str())
        return "\n".join(part + ("\n" if "\n" in part else "") for part in parts if part)


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
            raise RuntimeError("Measurement: expected one time or more, got none")
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
        """Digits of the median outside the 90% interval of its error, from 1 to 4.

        The interval is 1.645 standard errors of the middle half of the times, and 25 ns at least, because a
        clock reads no finer.
        """
        times = self._checked()
        middle = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        error = statistics.pstdev(middle) / math.sqrt(len(middle))
        interval = max(1.645 * error, _SMALLEST_INTERVAL)
        ratio = self.median / interval
        return max(1, min(math.floor(math.log10(ratio)) if ratio > 0 else 1, _MOST_DIGITS))

    def meets_confidence(self, threshold: float = _SPREAD) -> bool:
        """Return whether the times spread by less than `threshold` of their median."""
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        """Whether the times spread by more than a tenth of their median."""
        return not self.meets_confidence()

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
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

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
        count, runs = len(self.raw_times), self.number_per_run
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        lines = [super().__repr__(), self.task_spec.summarize()]
        if count == 1:
            lines += [f"  {self.median / scale:.2f} {unit}", f"  1 measurement, {runs} runs , {threads}"]
            return "\n".join(lines)
        lines.append(f"  Median: {self.median / scale:.2f} {unit}")
        if count > 3:
            times = self._checked()
            low, high = (_quantile(times, share) / scale for share in (0.25, 0.75))
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        lines.append(f"  {count} measurements, {runs} runs per measurement, {threads}")
        if self.has_warnings:
            share = 100 * self.iqr / self.median
            cause = "other work disturbs the machine" if share > 25 else "the machine is not at rest"
            lines.append(f"  WARNING: IQR / median = {share:.1f}%: {cause}")
        return "\n".join(lines)

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
    fitting = [(unit, scale) for unit, (scale, _) in _UNITS.items() if scale <= t * (1 + 1e-9)]
    return fitting[-1] if fitting else ("ns", 1e-9)


def unit_to_english(u: str) -> str:
    """Return the word for a unit.

    Args:
        u: "ns", "us", "ms" or "s".
    Returns: the word, in the singular.
    Raises: KeyError for another unit.

    Example:
        >>> flambeau.utils.benchmark.unit_to_english("us")
        'microsecond'
    """
    return _UNITS[u][1]


def trim_sigfig(x: float, n: int) -> float:
    """Return a number rounded to significant digits.

    Args:
        x: the number.
        n: the number of digits, 1 or more.
    Returns: the rounded number.
    Raises: ValueError if `n` is not an integer from 1 on.

    Example:
        >>> flambeau.utils.benchmark.trim_sigfig(1234.0, 2)
        1200.0
    """
    if n != int(n) or n < 1:
        raise ValueError(f"trim_sigfig: expected a number of digits from 1 on, got {n!r}")
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
    """Set the number of threads within a `with` block.

    Args:
        n: the number of threads, 1 or more.
    Returns: the context manager, which sets the earlier number back at its end.
    Raises: RuntimeError if `n` is not positive.

    Example:
        >>> from flambeau.utils.benchmark import set_torch_threads
        >>> with set_torch_threads(1):
        ...     flambeau.get_num_threads()
        1
    """
    import flambeau

    before = flambeau.get_num_threads()
    try:
        flambeau.set_num_threads(n)
        yield
    finally:
        flambeau.set_num_threads(before)
