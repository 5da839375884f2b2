"""Time flambeau against PyTorch, when it is installed, in one run.

Each side lives in its own process; for every case the two are timed in turn, several rounds, and the
medians and their ratio (ours / theirs: below 1 is faster) are printed and stored. With --least it is
the least time of all, which other load on the machine disturbs less. Import time and peak memory are
measured on fresh processes. Absolute times depend on the machine; quote ratios.
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

from cases import CASES

HERE = Path(__file__).parent
SIDES = ["flambeau"] + (["torch"] if importlib.util.find_spec("torch") else [])
IMPORT = (
    "import time; start = time.perf_counter(); import {side}; spent = time.perf_counter() - start; "
    "import resource; print(spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
)


class Worker:
    """A process that times cases for one side."""

    def __init__(self, side, least):
        self.suffix = " least" if least else ""
        command = [sys.executable, str(HERE / "worker.py"), side]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"benchmark: {side} did not start")

    def has_died(self):
        return self.process.poll() is not None

    def time(self, number):
        print(f"{number}{self.suffix}", file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if answer.startswith("error") or not answer:
            raise RuntimeError(answer or "the process died")
        return float(answer)


def human(seconds):
    for unit, factor in (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3)):
        if seconds < factor * 1000:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def amount(count):
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count:.0f} B"


def report(group, name, values, shown=human):
    ratio = values["flambeau"] / values["torch"] if values.get("torch") else None
    columns = [shown(values[side]) for side in SIDES] + ([f"{ratio:.3f}"] if ratio else [])
    print(f"{group:<12}{name:<33}" + "".join(f"{c:>12}" for c in columns), flush=True)
    return {"group": group, "name": name, **values, "ratio": ratio}


def import_costs(rounds):
    found = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side in SIDES:
            out = subprocess.run(
                [sys.executable, "-c", IMPORT.format(side=side)], capture_output=True, text=True, check=True
            )
            found[side].append(tuple(map(float, out.stdout.split())))
    middle = {
        side: [statistics.median(column) for column in zip(*rows, strict=True)]
        for side, rows in found.items()
    }
    yield report("import", "wall time", {side: values[0] for side, values in middle.items()})
    yield report(
        "import",
        "peak memory",
        {side: values[1] for side, values in middle.items()},
        lambda b: f"{b / 2**20:.0f} MiB",
    )


def measured(arguments):
    """Yield a row for each case; of a case that fails, with its error."""
    middle = min if arguments.least else statistics.median
    if not arguments.only:
        yield from import_costs(arguments.rounds)
    workers = {side: Worker(side, arguments.least) for side in SIDES}
    for number, case in enumerate(CASES):
        if arguments.only not in f"{case.group} {case.name}":
            continue
        times = {side: [] for side in SIDES}
        try:
            for _ in range(arguments.rounds):
                for side in SIDES:
                    if workers[side].has_died():
                        workers[side] = Worker(side, arguments.least)
                    times[side].append(workers[side].time(number))
        except (RuntimeError, OSError) as error:
            print(f"{case.group:<12}{case.name:<33}  {error}", flush=True)
            yield {"group": case.group, "name": case.name, "error": str(error)}
            continue
        shown = amount if case.unit == "bytes" else human
        yield report(case.group, case.name, {side: middle(t) for side, t in times.items()}, shown)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="group or part of a case's name")
    parser.add_argument("--least", action="store_true", help="the least time instead of the median")
    arguments = parser.parse_args()
    if "torch" not in SIDES:
        print("PyTorch is not installed (make oracle): timing flambeau alone")
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}"
    )
    print(
        f"{'':<45}" + "".join(f"{side:>12}" for side in SIDES) + ("       ratio" if len(SIDES) == 2 else "")
    )
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows = []
    try:
        for row in measured(arguments):
            rows.append(row)
    finally:  # what was measured is kept, whatever ends the run
        (arguments.output / "results.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
