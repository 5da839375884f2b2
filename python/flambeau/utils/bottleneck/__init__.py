"""Where a program spends its time: ``python -m flambeau.utils.bottleneck script.py [arguments]``.

The script runs under cProfile; the functions that took longest are printed after what it printed itself.
There is no profiler of operators yet, so calls of the extension appear as functions.
"""

from __future__ import annotations

import cProfile
import pstats
import runpy
import sys
from pathlib import Path
from typing import IO

from flambeau import version
from flambeau._C import get_num_threads
from flambeau._loading.lazy import attributes

TOP = 15


def profiled(script: str, arguments: list[str]) -> cProfile.Profile:
    """Run a script as the main program and return its profile."""
    before = sys.argv, sys.path[0]
    profile = cProfile.Profile()
    sys.argv, sys.path[0] = [script, *arguments], str(Path(script).resolve().parent)
    try:
        profile.enable()
        runpy.run_path(script, run_name="__main__")
    except SystemExit:
        pass
    finally:
        profile.disable()
        sys.argv, sys.path[0] = before
    return profile


def report(profile: cProfile.Profile, out: IO[str] | None = None) -> None:
    """Print the environment, and the functions that took longest themselves."""
    out = out or sys.stdout
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"flambeau {version.__version__}, Python {python}, {get_num_threads()} threads", file=out)
    pstats.Stats(profile, stream=out).sort_stats("tottime").print_stats(TOP)


def main(argv: list[str]) -> int:
    """Profile the script ``argv[1]`` with the arguments that follow it."""
    if len(argv) < 2 or argv[1].startswith("-"):
        print("usage: python -m flambeau.utils.bottleneck script.py [arguments]", file=sys.stderr)
        return 2
    report(profiled(argv[1], argv[2:]))
    return 0


__getattr__, __dir__ = attributes(__name__)
