"""Where a program spends its time: ``python -m flambeau.utils.bottleneck script.py [arguments]``.

The script runs once, under cProfile and under flambeau's profiler. After what it printed itself come the
functions and the operators that took longest. Operators are those of the main thread. Times of functions
include the work of both profilers.
"""

from __future__ import annotations

import cProfile
import pstats
import runpy
import sys
from pathlib import Path
from typing import IO, NamedTuple

from flambeau import version
from flambeau._C import get_num_threads
from flambeau._loading.lazy import attributes
from flambeau.autograd import profiler

TOP = 15


class Profiles(NamedTuple):
    """What one run of a script left."""

    functions: cProfile.Profile
    operators: profiler.profile


def profiled(script: str, arguments: list[str]) -> Profiles:
    """Run a script as the main program and return its profiles."""
    before = sys.argv, sys.path[0]
    made = Profiles(cProfile.Profile(), profiler.profile())
    sys.argv, sys.path[0] = [script, *arguments], str(Path(script).resolve().parent)
    try:
        with made.operators:
            try:
                made.functions.enable()
                runpy.run_path(script, run_name="__main__")
            finally:
                made.functions.disable()
    except SystemExit:
        pass
    finally:
        sys.argv, sys.path[0] = before
    return made


def report(made: Profiles, out: IO[str] | None = None) -> None:
    """Print the environment, and the functions and operators that took longest themselves."""
    out = out or sys.stdout
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"flambeau {version.__version__}, Python {python}, {get_num_threads()} threads", file=out)
    pstats.Stats(made.functions, stream=out).sort_stats("tottime").print_stats(TOP)
    averages = made.operators.key_averages()
    text = (
        averages.table(sort_by="self_cpu_time_total", row_limit=TOP)
        if averages
        else "No operators were recorded."
    )
    print(text, file=out)


def main(argv: list[str]) -> int:
    """Profile the script ``argv[1]`` with the arguments that follow it."""
    if len(argv) < 2 or argv[1].startswith("-"):
        print("usage: python -m flambeau.utils.bottleneck script.py [arguments]", file=sys.stderr)
        return 2
    report(profiled(argv[1], argv[2:]))
    return 0


__getattr__, __dir__ = attributes(__name__)
