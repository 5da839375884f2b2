"""`python -m parity [PATTERN ...]`: the operator database of PyTorch, run against flambeau.

Each entry runs in a worker process with a time limit: a crash or a hang counts against that entry and
ends nothing.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from workers import ROOT, Worker, ask_all

from .report import Summary, markdown, print_details, print_summary

TIME_LIMIT = 120  # seconds per entry
FLOOR = Path(__file__).with_name("floor.json")  # the percentages that were reached: they only rise


def entries(patterns: list[str]) -> list[tuple[str, str]]:
    """Full name and index of the entries that match; names are read where the database can be imported."""
    code = (
        "from torch.testing._internal.common_methods_invocations import op_db\n"
        "for o in op_db: print('.'.join(filter(None, (o.name, o.variant_test_name))))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"parity needs PyTorch's operator database: make oracle\n{done.stderr.strip()}")
    names = [(name, str(index)) for index, name in enumerate(done.stdout.split())]
    return [(n, i) for n, i in names if not patterns or any(fnmatch.fnmatch(n, p) for p in patterns)]


def run(chosen: list[tuple[str, str]], jobs: int, log: Path) -> dict[str, Any]:
    """The table of all chosen entries, by name."""
    done = 0

    def show(name: str) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            print(f"\r  {done}/{len(chosen)} {name:60.60}", end="", file=sys.stderr, flush=True)

    with log.open("w") as errors:
        workers = [Worker("parity.worker", TIME_LIMIT, errors) for _ in range(jobs)]
        answers = ask_all(chosen, workers, show)
    return {name: {"crashed": a} if isinstance(a, str) else a for name, a in answers.items()}


def main() -> int:
    """Run, store the full table, print the summary."""
    parser = argparse.ArgumentParser(prog="python -m parity", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="names of entries, as shell patterns; all if none")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "parity")
    parser.add_argument("--details", action="store_true", help="each failing cell with its first causes")
    parser.add_argument("--page", action="store_true", help="write docs/parity.md")
    parser.add_argument("--floor", action="store_true", help="fail below what was reached before")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    chosen = entries(options.patterns)
    table = run(chosen, min(options.jobs, len(chosen) or 1), options.output / "workers.log")
    if not options.patterns:
        (options.output / "table.json").write_text(json.dumps(table, indent=1) + "\n")
    summary = Summary(table)
    print_summary(summary)
    if options.details or options.patterns:
        print_details(table)
    if options.page:
        page = ROOT / "docs" / "parity.md"
        _, begin, names = page.read_text().partition("<!-- api: begin -->")  # `make api` writes that part
        page.write_text(markdown(table) + (f"\n{begin}{names}" if begin else ""))
    return fallen(summary) if options.floor else 0


def fallen(summary: Summary) -> int:
    """1, and why, if a share is below its floor or anything crashed."""
    problems = [f"crashed: {crash}" for crash in summary.crashes]
    for check, least in json.loads(FLOOR.read_text()).items():
        passed, total = summary.rows[check]
        if 100 * passed < least * total:
            problems.append(f"{check}: {100 * passed / total:.2f}% agree, {least}% did before")
    print("".join(f"parity: {problem}\n" for problem in problems), end="", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
