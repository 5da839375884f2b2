"""Run the operator tests once per instruction set that the machine has: `python -m instruction_sets`.

Our own loops are capped by FLAMBEAU_CPU_ISA and oneDNN by ONEDNN_MAX_CPU_ISA, so that a machine with
AVX-512 shows what one with AVX2 does. Each set gets a sample of the tests (see sampling.py). What `make test`
runs uncapped is not repeated.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Our name of a level, and oneDNN's of the set that goes with it.
LEVELS = {"x86_64": "SSE41", "v3": "AVX2", "v4": "AVX512_CORE"}
TESTS = ["test/ops", "test/nn"]


def environment_of(level: str) -> dict[str, str]:
    """The variables that cap both libraries."""
    return {"FLAMBEAU_CPU_ISA": level, "ONEDNN_MAX_CPU_ISA": LEVELS[level]}


def best_level() -> str:
    """The highest level of this machine; what no level's name fits is a build with one set only."""
    question = "import flambeau; print(flambeau._C._cpu_capability())"
    free = {k: v for k, v in os.environ.items() if k not in ("FLAMBEAU_CPU_ISA", "ONEDNN_MAX_CPU_ISA")}
    path = os.pathsep.join(filter(None, (str(ROOT / "python"), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-c", question]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=free | {"PYTHONPATH": path}
    ).stdout.strip()


def runnable_levels() -> list[str]:
    """The levels that this machine and this build have, lowest first."""
    best = best_level()
    names = list(LEVELS)
    return names[: names.index(best) + 1] if best in names else []


def run(level: str, jobs: int, sample: int) -> bool:
    """Run the sample with one set; whether it passed."""
    began = time.monotonic()
    options = ["-n", str(jobs), "--dist", "worksteal", "-p", "sampling", "--sample", str(sample)]
    # Threads of several processes share the cores: they must not spin while they wait.
    environment = {"OMP_WAIT_POLICY": "passive"} | os.environ | environment_of(level)
    status = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *TESTS],
        cwd=ROOT,
        env=environment,
        check=False,
    ).returncode
    verdict = "passed" if status == 0 else "FAILED"
    print(
        f"instruction set {level}, oneDNN {LEVELS[level]}: {verdict} in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return status == 0


def main() -> None:
    """Run every set and say which were run and which the machine lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sample", type=int, default=8, help="run one of this many tests; 1: all")
    parser.add_argument("--only", choices=LEVELS, help="this level alone")
    arguments = parser.parse_args()
    runnable = runnable_levels()
    wanted = [arguments.only] if arguments.only else list(LEVELS)
    lacking = [level for level in wanted if level not in runnable]
    passed = [run(level, arguments.jobs, arguments.sample) for level in wanted if level in runnable]
    print(f"instruction sets run: {', '.join(w for w in wanted if w in runnable) or 'none'}")
    print(f"instruction sets that this machine or build lacks: {', '.join(lacking) or 'none'}")
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
