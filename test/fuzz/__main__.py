"""`python -m fuzz [PATTERN ...]`: call operators with random arguments and tell which do not answer cleanly.

A clean answer is a result or an ordinary Python exception. A crash, a hang, an internal error and what a
sanitizer reports are shown with the call; the exit status is 1 if there is any, or if time did not suffice.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from workers import Worker, ask_all

from .worker import EXPECTED, Target, Targets

AT_ONCE = 100  # calls of one operator between which other operators get their turn
TIME_LIMIT = 120  # seconds for these
REPORT = 40  # lines of a sanitizer's report that are shown


class LoggedWorker(Worker):
    """A worker with a log of its own, in which a sanitizer's last words are found; idle after `end`."""

    def __init__(self, log: Path, end: float, module: str = "fuzz.worker") -> None:
        super().__init__(module, TIME_LIMIT, log.open("w"))
        self.log = log
        self.end = end

    def ask(self, question: str) -> Any:
        """The answer, or what became of the process and what it said."""
        if time.monotonic() > self.end:
            return "not called: the time was over"
        before = self.log.stat().st_size
        try:
            answer = super().ask(question)
        except RuntimeError as error:  # it did not start
            raise RuntimeError(f"{error}\n{self.log.read_text()}") from None
        return answer + self._report(before) if isinstance(answer, str) else answer

    def _report(self, before: int) -> str:
        lines = self.log.read_bytes()[before:].decode(errors="replace").splitlines()
        marks = ("ERROR: AddressSanitizer", "runtime error:", "Fatal Python error", "terminate called")
        first = next((i for i, line in enumerate(lines) if any(mark in line for mark in marks)), len(lines))
        return "".join(f"\n    | {line}" for line in lines[first : first + REPORT])

    def close(self) -> None:
        """End the process and its log."""
        super().close()
        self.errors.close()


# When memory is exhausted `operator new` does not throw under AddressSanitizer; without it Python gets a
# MemoryError.
NO_MEMORY = "ERROR: AddressSanitizer: allocator is out of memory"


def fuzz(
    patterns: list[str], examples: int, seed: int, jobs: int, rare: float = 0, seconds: float = 1e9
) -> dict[str, str]:
    """Print the faults by operator, and the operators whose share of calls with results is below `rare`."""
    targets = Targets()
    names = [n for n in sorted(targets.found) if not patterns or any(fnmatch.fnmatch(n, p) for p in patterns)]
    began = time.monotonic()
    done = 0

    def show(part: tuple[str, int]) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            print(f"\r  {done}/{len(questions)} {part[0]:60.60}", end="", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        parts = [(name, first) for name in names for first in range(0, examples, AT_ONCE)]
        traces = {(name, first): Path(scratch, f"{name} {first}") for name, first in parts}
        questions = [
            (part, f"{part[0]} {seed} {part[1]} {min(AT_ONCE, examples - part[1])} {trace}")
            for part, trace in traces.items()
        ]
        workers = [LoggedWorker(Path(scratch, f"log {i}"), began + seconds) for i in range(jobs)]
        answers = ask_all(questions, workers, show)
        failures = _failures(answers, targets, traces, seed)
    counts = _counts(answers)
    for name, (calls, results) in counts.items():
        if results < rare * calls:
            print(f"{name}: {results} of {calls} calls gave a result")
    calls, results = (sum(of_one) for of_one in zip((0, 0), *counts.values(), strict=True))
    spent = time.monotonic() - began
    print(f"{calls} calls of {len(names)} functions and methods, {results} results, {spent:.0f} s")
    return failures


def _failures(
    answers: dict[tuple[str, int], Any], targets: Targets, traces: dict[tuple[str, int], Path], seed: int
) -> dict[str, str]:
    """The first fault of each operator; those that ran out of memory are printed."""
    failures: dict[str, str] = {}
    exhausted = set()
    for (name, first), answer in answers.items():
        problem = answer if isinstance(answer, str) else answer["failure"]
        if NO_MEMORY in problem:
            exhausted.add(name)
        elif problem:
            failures.setdefault(name, _told(targets[name], seed, traces[name, first], problem))
    if exhausted:
        print(f"out of memory, which ends a process under sanitizers: {', '.join(sorted(exhausted))}")
    return failures


def _told(target: Target, seed: int, trace: Path, problem: str) -> str:
    """The call that was being made, how to make it again, and what became of it."""
    if not trace.exists():
        return f"no call\n    {problem}"
    number = int(trace.read_text())
    again = f"python -m fuzz {target.name} --seed {seed} --call {number}"
    try:
        shown = target.shown(seed, number)
    except Exception as error:  # the fault may lie in making the arguments
        shown = f"{target.name}: its arguments cannot be made: {type(error).__name__}: {error}"
    return f"{shown}\n    {again}\n    {problem}"


def _counts(answers: dict[tuple[str, int], Any]) -> dict[str, tuple[int, int]]:
    """Calls and results by name."""
    counts: dict[str, tuple[int, int]] = {}
    for (name, _), answer in answers.items():
        if isinstance(answer, dict):
            calls, results = counts.get(name, (0, 0))
            counts[name] = calls + answer["calls"], results + answer["results"]
    return counts


def again(name: str, seed: int, number: int) -> int:
    """Make one call in this process."""
    target = Targets()[name]
    print(target.shown(seed, number), flush=True)
    try:
        print(target.make(target.draw(seed, number)))
    except EXPECTED as error:
        print(f"{type(error).__name__}: {error}")
    return 0


def main() -> int:
    """Fuzz and report."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="flambeau.NAME, linalg.NAME, Tensor.NAME; all if none")
    parser.add_argument("--examples", type=int, default=200, help="calls per operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument(
        "--rare", type=float, default=0, help="show operators whose calls succeed more rarely"
    )
    parser.add_argument("--minutes", type=float, default=1e6, help="fail if this does not suffice")
    parser.add_argument("--call", type=int, help="make only the call of this number, in this process")
    options = parser.parse_args()
    if options.call is not None:
        return again(options.patterns[0], options.seed, options.call)
    failures = fuzz(
        options.patterns, options.examples, options.seed, options.jobs, options.rare, 60 * options.minutes
    )
    for name, problem in failures.items():
        print(f"{name}: {problem}")
    print(f"{len(failures)} operators do not answer cleanly (seed {options.seed})")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
