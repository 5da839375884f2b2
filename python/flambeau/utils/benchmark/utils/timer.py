"""Runs a statement many times and keeps the times."""

from __future__ import annotations

import enum
import textwrap
import timeit
from collections.abc import Callable
from time import perf_counter as timer
from typing import Any

from flambeau.utils.benchmark.utils.common import Measurement, TaskSpec, set_torch_threads

__all__ = ["Language", "Timer", "timer"]


class Language(enum.Enum):
    """Languages of statements; `Timer` runs Python only.

    Example:
        >>> from flambeau.utils.benchmark import Language
        >>> [language.name for language in Language]
        ['PYTHON', 'CPP']
    """

    PYTHON = 0
    CPP = 1


class Timer:
    """Timer of a statement.

    Other than `timeit.Timer` it uses one thread by default, warms up, and returns a `Measurement`.

    Args:
        stmt: the statement, Python code.
        setup: the code that runs once before each measurement.
        global_setup: code in C++; not supported.
        timer: the clock, a function that returns seconds.
        globals: the names that the code may use.
        label: the table in `Compare`.
        sub_label: the row there. None means the statement.
        description: the column there.
        env: the name of the environment, where several are compared.
        num_threads: the number of threads that operators may use.
        language: the language of the statement, which must be Python.
    Raises: ValueError for another language or a `global_setup`.

    Example:
        >>> from flambeau.utils.benchmark import Timer
        >>> measurement = Timer("x + 1", globals={"x": flambeau.ones(2)}).timeit(10)
        >>> measurement.number_per_run
        10
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(
                f"Timer: expected a statement in Python, got {language!r}; flambeau compiles no C++ "
                "statements"
            )
        if global_setup:
            raise ValueError(
                f"Timer: expected global_setup only for C++ statements, got {global_setup!r}; use setup"
            )
        stmt, setup = (textwrap.dedent(text).strip("\n") for text in (stmt, setup))
        self._timer = timeit.Timer(stmt, setup, timer, dict(globals or {}))
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)  # a clock may stand still

    def timeit(self, number: int = 1000000) -> Measurement:
        """Run the statement `number` times, after a hundredth of that to warm up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not offered, as in PyTorch: `blocked_autorange` repeats."""
        raise NotImplementedError("Timer.repeat: use blocked_autorange, which repeats")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Not offered, as in PyTorch: `blocked_autorange` finds the number of runs."""
        raise NotImplementedError("Timer.autorange: use blocked_autorange, which finds the number of runs")

    def _block_size(self, min_run_time: float) -> int:
        """Return so many runs that the clock's own time counts for less than a thousandth."""
        overhead = min(self._timer_overhead() for _ in range(5))
        number = 1
        while True:
            taken = self._timeit(number)
            if overhead <= 1e-3 * taken and taken >= min_run_time / 1000:
                return number
            if taken > min_run_time:
                return number
            number *= 10

    def _timer_overhead(self) -> float:
        return timeit.Timer("pass", timer=self._timer.timer).timeit(1)  # type: ignore[attr-defined]

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Repeat blocks of runs until `min_run_time` seconds have gone by.

        Args:
            callback: called with the number of runs and the time of each block.
            min_run_time: seconds.
        """
        times: list[float] = []
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            while not times or sum(times) < min_run_time:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Repeat until the spread of the times is below a share of their median.

        Args:
            threshold: the share.
            min_run_time: seconds to run at least.
            max_run_time: seconds after which to give up.
            callback: called with the number of runs and the time of each block.
        """
        times: list[float] = []
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)
            while sum(times) < max_run_time:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                found = Measurement(number, times, self._task_spec)
                if len(times) > 3 and sum(times) > min_run_time and found.iqr < threshold * found.median:
                    break
        return Measurement(number, times, self._task_spec)
