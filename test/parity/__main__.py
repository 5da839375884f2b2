"""`python -m parity [PATTERN ...]`: the operator database of PyTorch, run against flambeau.

Each entry runs in a worker process with a time limit: a crash or a hang counts against that entry and
ends nothing.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import queue
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from .report import Summary, print_details, print_summary

TIME_LIMIT = 120  # seconds per entry
ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """A process that answers one index at a time."""

    def __init__(self, errors: Any) -> None:
        self.errors = errors
        self.process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join((str(ROOT / "python"), str(ROOT / "test"))),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "parity.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        if process.stdout.readline().strip() != "ready":
            raise SystemExit("parity: a worker did not start; its message is in the log")
        return process

    def ask(self, index: int) -> dict[str, Any] | str:
        """The verdicts of an entry, or what became of its process."""
        if self.process is None:
            self.process = self._start()
        self.process.stdin.write(f"{index}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], TIME_LIMIT)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        if not ready:
            self.process.kill()
        status = self.process.wait()
        self.process = None
        return f"crash: signal {-status}" if ready else f"timeout after {TIME_LIMIT} s"

    def close(self) -> None:
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def entries(patterns: list[str]) -> list[tuple[int, str]]:
    """Index and full name of the entries that match; names are read where the database can be imported."""
    code = (
        "from torch.testing._internal.common_methods_invocations import op_db\n"
        "for o in op_db: print('.'.join(filter(None, (o.name, o.variant_test_name))))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"parity needs PyTorch's operator database: make oracle\n{done.stderr.strip()}")
    names = list(enumerate(done.stdout.split()))
    return [(i, n) for i, n in names if not patterns or any(fnmatch.fnmatch(n, p) for p in patterns)]


def run(chosen: list[tuple[int, str]], jobs: int, log: Path) -> dict[str, Any]:
    """The table of all chosen entries, by name."""
    waiting: queue.Queue[tuple[int, str]] = queue.Queue()
    for entry in chosen:
        waiting.put(entry)
    table: dict[str, Any] = {}
    with log.open("w") as errors:
        threads = [
            threading.Thread(target=_work, args=(waiting, table, errors, len(chosen))) for _ in range(jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return dict(sorted(table.items()))


def _work(waiting: queue.Queue[tuple[int, str]], table: dict[str, Any], errors: Any, total: int) -> None:
    worker = Worker(errors)
    while True:
        try:
            index, name = waiting.get_nowait()
        except queue.Empty:
            break
        answer = worker.ask(index)
        table[name] = {"crashed": answer} if isinstance(answer, str) else answer
        if sys.stderr.isatty():
            print(f"\r  {len(table)}/{total} {name:60.60}", end="", file=sys.stderr, flush=True)
    worker.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m parity", description=__doc__)
    parser.add_argument(
        "patterns", nargs="*", help="names of entries, as shell patterns; all of them if none"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "parity")
    parser.add_argument("--details", action="store_true", help="each failing cell with its first causes")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    chosen = entries(options.patterns)
    table = run(chosen, min(options.jobs, len(chosen) or 1), options.output / "workers.log")
    if not options.patterns:
        (options.output / "table.json").write_text(json.dumps(table, indent=1) + "\n")
    print_summary(Summary(table))
    if options.details or options.patterns:
        print_details(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
