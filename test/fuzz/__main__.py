"""`python -m fuzz [PATTERN ...]`: call operators with random arguments and tell which do not answer cleanly.

A clean answer is a result or an ordinary Python exception. A crash, a hang and an internal error are reported
with the arguments of the call; the exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import tempfile
from pathlib import Path

from workers import Worker, ask_all

from .worker import callables

TIME_LIMIT = 120  # seconds per operator


def fuzz(patterns: list[str], examples: int, seed: int, jobs: int, rare: float = 0) -> dict[str, str]:
    """What is wrong, by operator; shows those of which less than the share `rare` of calls gave results."""
    names = [n for n in sorted(callables()) if not patterns or any(fnmatch.fnmatch(n, p) for p in patterns)]
    done = 0

    def show(name: str) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            print(f"\r  {done}/{len(names)} {name:60.60}", end="", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as scratch, Path(scratch, "log").open("w+") as log:
        traces = {name: Path(scratch, name) for name in names}
        questions = [(name, f"{name} {examples} {seed} {traces[name]}") for name in names]
        answers = ask_all(questions, [Worker("fuzz.worker", TIME_LIMIT, log) for _ in range(jobs)], show)
        failures = {}
        for name, answer in answers.items():
            problem = answer if isinstance(answer, str) else answer["failure"]
            if not problem and answer["results"] < rare * examples:
                print(f"{name}: {answer['results']} of {examples} calls gave a result")
            if problem:
                last = traces[name].read_text() if traces[name].exists() else ""
                failures[name] = f"{problem}\n    {name}({last})"
        log.seek(0)
        sys.stderr.write(log.read()[-20_000:])
    return failures


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
    options = parser.parse_args()
    failures = fuzz(options.patterns, options.examples, options.seed, options.jobs, options.rare)
    for name, problem in failures.items():
        print(f"{name}: {problem}")
    print(f"{len(failures)} operators do not answer cleanly (seed {options.seed})")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
