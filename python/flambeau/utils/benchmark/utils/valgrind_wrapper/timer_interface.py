"""Counts of instructions per function, from statements that ran under Callgrind."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, overload

from flambeau.utils.benchmark.utils.common import TaskSpec
from flambeau.utils.benchmark.utils.valgrind_wrapper import _process

__all__ = ["CallgrindStats", "CopyIfCallgrind", "FunctionCount", "FunctionCounts"]

_SHOWN, _HALF = 18, 9  # rows of a printed list, and of its two parts
# Functions of the interpreter whose number of instructions depends on the addresses of strings.
_NOISY = ("dictobject.c:lookdict_unicode", "dictobject.c:unicodekeys_lookup_unicode")


class FunctionCount(NamedTuple):
    """Instructions of one function.

    Args:
        count: the number of instructions.
        function: the file and the name of the function.

    Example:
        >>> flambeau.utils.benchmark.FunctionCount(12, "add.cpp:add").count
        12
    """

    count: int  # type: ignore[assignment]  # hides tuple.count, as in PyTorch
    function: str


@dataclass(repr=False, eq=False, frozen=True)
class FunctionCounts:
    """Instructions of functions, the largest number first.

    Args:
        _data: the `FunctionCount` objects.
        inclusive: whether a count includes the functions that the function calls.
        truncate_rows: whether printing leaves out the middle of a long list.
        _linewidth: the characters of a printed name, at most.

    Example:
        >>> from flambeau.utils.benchmark import FunctionCount, FunctionCounts
        >>> counts = FunctionCounts((FunctionCount(7, "f"), FunctionCount(2, "g")), inclusive=False)
        >>> (counts + counts).sum()
        18
    """

    _data: tuple[FunctionCount, ...]
    inclusive: bool
    truncate_rows: bool = True
    _linewidth: int | None = None

    def __iter__(self) -> Iterator[FunctionCount]:
        yield from self._data

    def __len__(self) -> int:
        return len(self._data)

    @overload
    def __getitem__(self, item: int) -> FunctionCount: ...
    @overload
    def __getitem__(self, item: slice) -> FunctionCounts: ...
    def __getitem__(self, item: Any) -> FunctionCount | FunctionCounts:
        found = self._data[item]
        return replace(self, _data=found, truncate_rows=False) if isinstance(item, slice) else found

    def __repr__(self) -> str:
        width = max((len(str(count)) for count, _ in self._data), default=0) + 2
        limit = self._linewidth or 80
        lines = [f"{count:>{width}}  {_shortened(name, limit - width - 2)}" for count, name in self._data]
        if self.truncate_rows and len(lines) > _SHOWN:
            lines = [*lines[:_HALF], "   ...", *lines[-_HALF:]]
        if not self.inclusive:
            lines += ["", f"Total: {self.sum()}"]
        return "\n".join([super().__repr__(), *lines])

    def __add__(self, other: FunctionCounts) -> FunctionCounts:
        return self._merge(other, 1)

    def __sub__(self, other: FunctionCounts) -> FunctionCounts:
        return self._merge(other, -1)

    def __mul__(self, other: int | float) -> FunctionCounts:
        counts = {name: int(count * other) for count, name in self._data}
        return self._from_dict(counts, self.inclusive)

    def transform(self, map_fn: Callable[[str], str]) -> FunctionCounts:
        """Rename functions; counts of functions that get one name are added."""
        counts: Counter[str] = Counter()
        for count, name in self._data:
            counts[map_fn(name)] += count
        return self._from_dict(counts, self.inclusive)

    def filter(self, filter_fn: Callable[[str], bool]) -> FunctionCounts:
        """Keep the functions for whose name `filter_fn` gives True."""
        return replace(self, _data=tuple(one for one in self._data if filter_fn(one.function)))

    def sum(self) -> int:
        """Return the sum of the counts."""
        return sum(count for count, _ in self._data)

    def denoise(self) -> FunctionCounts:
        """Leave out the dictionary lookups of the interpreter, whose counts change from run to run."""
        return self.filter(lambda name: not any(noisy in name for noisy in _NOISY))

    def _merge(self, other: FunctionCounts, sign: int) -> FunctionCounts:
        if not isinstance(other, FunctionCounts):
            raise TypeError(f"FunctionCounts: expected FunctionCounts to merge, got {type(other).__name__}")
        if self.inclusive != other.inclusive:
            raise AssertionError(
                "FunctionCounts: expected both counts with inner functions or both without, got one of each"
            )
        counts: Counter[str] = Counter()
        for count, name in self._data:
            counts[name] += count
        for count, name in other._data:
            counts[name] += sign * count
        return self._from_dict(counts, self.inclusive)

    @staticmethod
    def _from_dict(counts: dict[str, int], inclusive: bool) -> FunctionCounts:
        ordered = sorted(((c, name) for name, c in counts.items() if c), reverse=True)
        return FunctionCounts(tuple(FunctionCount(c, name) for c, name in ordered), inclusive)


def _shortened(name: str, limit: int) -> str:
    if len(name) <= limit:
        return name
    last = max(limit // 2 - 2, 1)
    return f"{name[: max(limit - last - 5, 1)]} ... {name[-last:]}"


@dataclass(repr=False, eq=False, frozen=True)
class CallgrindStats:
    """Instructions of a statement, from `Timer.collect_callgrind`.

    Args:
        task_spec: the statement.
        number_per_run: the number of executions.
        built_with_debug_symbols: whether the counts have names of files.
        baseline_inclusive_stats: counts of an empty statement, with inner functions.
        baseline_exclusive_stats: the same, without inner functions.
        stmt_inclusive_stats: counts of the statement, with inner functions.
        stmt_exclusive_stats: the same, without inner functions.
        stmt_callgrind_out: the file of Callgrind, if it was kept.

    Example:
        >>> from flambeau.utils.benchmark import CallgrindStats, FunctionCount, FunctionCounts, TaskSpec
        >>> empty, some = (FunctionCounts(tuple(FunctionCount(n, "f") for n in c), False) for c in ([], [9]))
        >>> CallgrindStats(TaskSpec("f()", "pass"), 3, True, empty, empty, some, some, None).counts()
        9
    """

    task_spec: TaskSpec
    number_per_run: int
    built_with_debug_symbols: bool
    baseline_inclusive_stats: FunctionCounts
    baseline_exclusive_stats: FunctionCounts
    stmt_inclusive_stats: FunctionCounts
    stmt_exclusive_stats: FunctionCounts
    stmt_callgrind_out: str | None = field(default=None)

    def __repr__(self) -> str:
        empty = self.baseline_exclusive_stats
        threads = self.task_spec.num_threads
        lines = [
            super().__repr__(),
            self.task_spec.summarize(),
            f"  {'':<23}{'All':>5}{'Noisy symbols removed':>31}",
            f"    Instructions: {self.counts():>12}{self.counts(denoise=True):>27}",
            f"    Baseline:     {empty.sum():>12}{empty.denoise().sum():>27}",
            f"{self.number_per_run} runs per measurement, {threads} thread{'s' if threads > 1 else ''}",
        ]
        if not self.built_with_debug_symbols:
            lines.append("Note: functions have no names of files, because flambeau has no debug information")
        return "\n".join(lines)

    def stats(self, inclusive: bool = False) -> FunctionCounts:
        """Return the counts per function; `inclusive`: with the functions that it calls."""
        return self.stmt_inclusive_stats if inclusive else self.stmt_exclusive_stats

    def counts(self, *, denoise: bool = False) -> int:
        """Return the number of instructions; `denoise` as `FunctionCounts.denoise`."""
        found = self.stmt_exclusive_stats
        return (found.denoise() if denoise else found).sum()

    def delta(self, other: CallgrindStats, inclusive: bool = False) -> FunctionCounts:
        """Return the counts minus those of another run."""
        return self.stats(inclusive) - other.stats(inclusive)

    def as_standardized(self) -> CallgrindStats:
        """Return the counts without folders and libraries in names, so that different builds compare."""

        def standard(counts: FunctionCounts) -> FunctionCounts:
            return counts.transform(_process.standard_name)

        return replace(
            self,
            baseline_inclusive_stats=standard(self.baseline_inclusive_stats),
            baseline_exclusive_stats=standard(self.baseline_exclusive_stats),
            stmt_inclusive_stats=standard(self.stmt_inclusive_stats),
            stmt_exclusive_stats=standard(self.stmt_exclusive_stats),
        )


class CopyIfCallgrind:
    """Global of a `Timer` that `Timer.collect_callgrind` may copy to its process.

    Args:
        value: a number, string or bytes, or a module of `nn`; tensors can be made in the setup.
        setup: the code that the copy needs before, such as the import of its class.
    Raises: ValueError for other values.

    Example:
        >>> flambeau.utils.benchmark.CopyIfCallgrind(flambeau.nn.Linear(2, 3)).value.out_features
        3
    """

    def __init__(self, value: Any, *, setup: str | None = None) -> None:
        _checked_global("value", value)
        self._value, self._setup = value, setup

    @property
    def value(self) -> Any:
        """The value."""
        return self._value

    @property
    def setup(self) -> str | None:
        """The code that runs before the value is copied."""
        return self._setup

    @staticmethod
    def unwrap_all(globals: dict[str, Any]) -> dict[str, Any]:
        """Return the names with the values themselves."""
        return {
            name: value.value if isinstance(value, CopyIfCallgrind) else value
            for name, value in globals.items()
        }


_PLAIN = (str, bytes, bool, int, float, complex, type(None))


def _checked_global(name: str, value: Any) -> None:
    from flambeau.nn import Module

    if not isinstance(value, (*_PLAIN, Module)) or (value is None and name == "value"):
        raise ValueError(
            f"collect_callgrind: expected numbers, strings, bytes or nn.Module as globals, got a "
            f"{type(value).__name__}; tensors can be made in the setup (Unsupported type)"
        )


def _copied_globals(given: dict[str, Any]) -> list[tuple[str, str | None, bytes]]:
    """Return names, setups and pickled values of globals."""
    out = []
    for name, value in given.items():
        setup = value.setup if isinstance(value, CopyIfCallgrind) else None
        plain = value.value if isinstance(value, CopyIfCallgrind) else value
        if not isinstance(value, (*_PLAIN, CopyIfCallgrind)):
            raise ValueError(
                f"collect_callgrind: expected CopyIfCallgrind around the global {name!r}, which the other "
                f"process gets as a copy, got a {type(value).__name__}"
            )
        out.append((name, setup, pickle.dumps(plain)))
    return out


def collect(
    code: tuple[bool, TaskSpec, dict[str, Any]],
    number: int,
    repeats: int,
    with_baseline: bool,
    keeps_file: bool,
) -> tuple[CallgrindStats, ...]:
    """Run a statement `repeats` times under Callgrind, and an empty one for comparison."""
    is_cpp, spec, given = code
    task = _process.Task(is_cpp, spec, _copied_globals(given), number)
    nothing = (FunctionCounts((), True), FunctionCounts((), False))
    baseline = _counts(task.without_statement(), False)[0] if with_baseline else nothing
    out = []
    for _ in range(repeats):
        (inclusive, exclusive), file = _counts(task, keeps_file)
        has_files = any("/" in name.partition(":")[0] for _, name in exclusive)
        out.append(CallgrindStats(spec, number, has_files, *baseline, inclusive, exclusive, file))
    return tuple(out)


def _counts(
    task: _process.Task, keeps_file: bool
) -> tuple[tuple[FunctionCounts, FunctionCounts], str | None]:
    inclusive, exclusive, file = _process.run(task, keeps_file)
    made = (FunctionCounts._from_dict(inclusive, True), FunctionCounts._from_dict(exclusive, False))
    return made, file
