"""Runs a statement many times and keeps the times."""

from __future__ import annotations

import enum
import textwrap
import timeit
from collections.abc import Callable
from time import perf_counter
from typing import Any

from flambeau.utils.benchmark.utils._cpp_statement import CppTimer
from flambeau.utils.benchmark.utils.common import Measurement, TaskSpec, set_torch_threads
from flambeau.utils.benchmark.utils.valgrind_wrapper.timer_interface import (
    CallgrindStats,
    CopyIfCallgrind,
    collect,
)

__all__ = ["Language", "Timer", "timer"]

timer = perf_counter
_LONGEST_BLOCK = 10**7  # runs; more would not end with a clock that stands still


class Language(enum.Enum):
    """Languages of statements.

    Example:
        >>> from flambeau.utils.benchmark import Language
        >>> [language.name for language in Language]
        ['PYTHON', 'CPP']
    """

    PYTHON = 0
    CPP = 1


_LANGUAGES: dict[Any, Language] = {
    **{name: Language.PYTHON for name in (Language.PYTHON, "py", "python")},
    **{name: Language.CPP for name in (Language.CPP, "c++", "cpp")},
}


def _dedented(code: str) -> str:
    return textwrap.dedent(code).strip("\n").rstrip()


class Timer:
    """Timer of a statement.

    Other than `timeit.Timer` it uses one thread by default, warms up, and returns a `Measurement`.

    Args:
        stmt: the statement.
        setup: the code that runs once before each measurement.
        global_setup: code in C++ at namespace scope, such as includes; only for statements in C++.
        timer: the clock, a function that returns seconds. Statements in C++ have their own.
        globals: the names that the code may use, besides `torch` and `flambeau`; only for Python.
        label: the table in `Compare`.
        sub_label: the row there. None means the statement.
        description: the column there.
        env: the name of the environment, where several are compared.
        num_threads: the number of threads that operators may use.
        language: a `Language`, "python" or "py", "c++" or "cpp". C++ is compiled by
            `utils.cpp_extension.load_inline` at the first measurement.
    Raises: ValueError for another language, `global_setup` for Python, and `globals` or a clock for C++.

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
        if language not in _LANGUAGES:
            raise ValueError(
                f"Timer: expected a Language, 'py', 'python', 'c++' or 'cpp' as language, got {language!r}"
            )
        stmt, setup, global_setup = (_dedented(text) for text in (stmt, setup, global_setup))
        self._language = _LANGUAGES[language]
        self._globals = dict(globals or {})
        self._timer: Any
        if self._language is Language.CPP:
            if self._globals or timer is not perf_counter:
                raise ValueError("Timer: expected no globals and no timer for statements in C++, got some")
            self._timer = CppTimer(stmt, setup, global_setup, timer)
        else:
            if global_setup:
                raise ValueError(
                    f"Timer: expected global_setup only for C++ statements, got {global_setup!r}; use setup"
                )
            self._timer = timeit.Timer(stmt, setup, timer, self._names())
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _names(self) -> dict[str, Any]:
        import flambeau

        return {"torch": flambeau, "flambeau": flambeau, **CopyIfCallgrind.unwrap_all(self._globals)}

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
            if taken > min_run_time or number >= _LONGEST_BLOCK:
                return number
            number *= 10

    def _timer_overhead(self) -> float:
        return timeit.Timer("pass", timer=self._timer.timer).timeit(1)

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

    def collect_callgrind(
        self,
        number: int = 100,
        *,
        repeats: int | None = None,
        collect_baseline: bool = True,
        retain_out_file: bool = False,
    ) -> CallgrindStats | tuple[CallgrindStats, ...]:
        """Count the instructions of the statement in a process of its own, under Callgrind.

        Counts differ less from run to run than times do. The process cannot share memory with this one, so
        `globals` may only have numbers, strings and modules, or values in `CopyIfCallgrind`.

        Args:
            number: the number of executions.
            repeats: the number of processes. None means one, and the result is no tuple.
            collect_baseline: whether the instructions of an empty statement are counted too.
            retain_out_file: whether the result keeps the file of Callgrind, as `stmt_callgrind_out`.
        Returns: the counts, or a tuple of them with `repeats`.
        Raises: RuntimeError if valgrind is not installed or the process fails, ValueError for other globals.
        """
        if number < 1 or (repeats is not None and repeats < 1):
            raise ValueError(
                f"Timer.collect_callgrind: expected number and repeats from 1 on, got {number} and {repeats}"
            )
        code = (self._language is Language.CPP, self._task_spec, self._globals)
        counts = collect(code, number, repeats or 1, collect_baseline, retain_out_file)
        return counts[0] if repeats is None else counts
