"""`python -m fuzz.walk`: random programs about shared memory, run with flambeau and with PyTorch.

A finding is a crash, what a sanitizer reports, or a statement after which the two sides see different things.
It is shown as the shortest program that still shows it. The exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from workers import Worker

from .__main__ import LoggedWorker

STEPS = 30
BATCH = 20  # programs per question
SHOWN = 12  # findings of different kinds


class Pair:
    """A worker of each framework; `theirs` is None without PyTorch."""

    def __init__(self, scratch: Path, number: int, compare: bool) -> None:
        self.ours = LoggedWorker(scratch / f"log {number}", float("inf"), "fuzz.walking")
        self.theirs = None
        if compare:
            log = (scratch / f"their log {number}").open("w")
            self.theirs = Worker("fuzz.walking", 120, log, {"FLAMBEAU_WALK": "torch"})
        self.trace = scratch / f"trace {number}"

    def draw(self, seed: int, programs: int) -> Any:
        """New programs, or as a string what became of the process."""
        question = {"seed": seed, "programs": programs, "steps": STEPS, "compare": self.theirs is not None}
        return self.ours.ask(json.dumps({**question, "trace": str(self.trace)}))

    def finding(self, program: list[str]) -> tuple[int, str] | None:
        """The first statement with a difference, and which."""
        question = json.dumps({"program": program})
        ours = self.ours.ask(question)
        if isinstance(ours, str):
            return len(program) - 1, ours
        return self.compared(program, ours)

    def compared(self, program: list[str], ours: list[Any]) -> tuple[int, str] | None:
        """The first statement after which PyTorch has something else."""
        if self.theirs is None:
            return None
        theirs = self.theirs.ask(json.dumps({"program": program}))
        if isinstance(theirs, str):  # it crashes where we do not
            return None
        before: Any = ({}, {})
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if problem := difference(a, b) or unnoticed(program[i], before, (a[1], b[1])):
                return i, problem
            before = (a[1], b[1])
        return None

    def shrunk(self, program: list[str], kind: str) -> list[str]:
        """The program without the statements that the finding does not need."""
        step = max(1, len(program) // 4)
        while step:
            i = 0
            while i < len(program):
                shorter = program[:i] + program[i + step :]
                found = self.finding(shorter) if shorter else None
                if found and kind_of(shorter, *found) == kind:
                    program = shorter[: found[0] + 1]
                else:
                    i += step
            step //= 2
        return program

    def close(self) -> None:
        """End the processes."""
        self.ours.close()
        if self.theirs:
            self.theirs.close()


def difference(ours: Any, theirs: Any) -> str:
    """What differs first: the outcome, the variables there are, an entry of one."""
    if ours[0] != theirs[0]:
        return f"outcome: flambeau {ours[0]}, PyTorch {theirs[0]}"
    for name in sorted({*ours[1], *theirs[1]}):
        a, b = ours[1].get(name, {}), theirs[1].get(name, {})
        for key in sorted({*a, *b}):
            if key != "version" and a.get(key) != b.get(key):
                return f"{key} of {name}: flambeau {a.get(key)}, PyTorch {b.get(key)}"
    return ""


def unnoticed(statement: str, before: Any, after: Any) -> str:
    """A visible write that PyTorch counts and we do not; we count those through `.data` as well."""
    if "swap_tensors" in statement or ".data =" in statement or ".set_(" in statement:
        return ""
    for name in after[1]:
        if statement.startswith(f"{name} =") or any(name not in side for side in (*before, *after)):
            continue
        ours, theirs = ((b[name], a[name]) for a, b in zip(before, after, strict=True))
        written = ours[0]["values"] != ours[1]["values"] and ours[0]["shape"] == ours[1]["shape"]
        if written and "version" in ours[0] and theirs[0]["version"] > theirs[1]["version"]:
            if ours[0]["version"] <= ours[1]["version"]:
                return f"version of {name}: a write is not counted"
    return ""


def kind_of(program: list[str], step: int, problem: str) -> str:
    """Findings of one kind have the same method in the last statement and differ in the same respect."""
    text = program[step]
    words = "".join(c if c.isalpha() or c == "_" else " " for c in text.replace("no_grad", "")).split()
    method = next((w for w in words if len(w) > 2 and w not in ("with", "detach", "bool")), "")
    method = method or "".join(c for c in text if not c.isalnum())
    respect = problem if problem.startswith("outcome") else problem.partition(" ")[0]
    return f"{method}: {respect}"


class Findings:
    """The first program of each kind, and how many there are."""

    def __init__(self) -> None:
        self.programs: dict[str, tuple[list[str], str]] = {}
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()

    def add(self, pair: Pair, program: list[str], step: int, problem: str) -> None:
        """Count, and shrink the first."""
        kind = kind_of(program, step, problem)
        with self.lock:
            self.counts[kind] += 1
            if kind in self.programs or len(self.programs) >= 4 * SHOWN:
                return
            self.programs[kind] = (program, problem)
        shorter = pair.shrunk(program[: step + 1], kind)
        found = pair.finding(shorter)
        self.programs[kind] = (shorter, found[1] if found else problem)
        lines = "".join(f"    {line}\n" for line in shorter)
        print(f"{kind}\n{lines}    # {self.programs[kind][1]}\n", flush=True)

    def show(self) -> None:
        """Print how many there are of each kind, the most frequent first."""
        for kind, count in self.counts.most_common():
            print(f"{count:6} {kind}")


def walk(seed: int, statements: int, jobs: int, compare: bool, end: float) -> tuple[Findings, int]:
    """The findings of about this many statements, and how many were run."""
    findings = Findings()
    batches = iter(range(seed * 1_000_003, seed * 1_000_003 + max(1, statements // STEPS), BATCH))
    done = 0
    lock = threading.Lock()

    def work(pair: Pair) -> None:
        nonlocal done
        while time.monotonic() < end:
            with lock:
                first = next(batches, None)
            if first is None:
                break
            answer = pair.draw(first, BATCH)
            if isinstance(answer, str):
                program = pair.trace.read_text().splitlines()
                findings.add(pair, program, len(program) - 1, answer)
                continue
            with lock:
                done += BATCH * STEPS
            for one in answer if compare else ():
                found = pair.compared(one["program"], one["seen"])
                if found:
                    findings.add(pair, one["program"], *found)

    with tempfile.TemporaryDirectory() as scratch:
        pairs = [Pair(Path(scratch), i, compare) for i in range(jobs)]
        threads = [threading.Thread(target=work, args=(pair,)) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for pair in pairs:
            pair.close()
    return findings, done


def main() -> int:
    """Walk and report."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.walk", description=__doc__)
    parser.add_argument("--statements", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--minutes", type=float, default=60, help="fail if this does not suffice")
    parser.add_argument("--alone", action="store_true", help="without PyTorch: only crashes count")
    options = parser.parse_args()
    compare = not options.alone and importlib.util.find_spec("torch") is not None
    began = time.monotonic()
    findings, done = walk(
        options.seed, options.statements, options.jobs, compare, began + 60 * options.minutes
    )
    findings.show()
    against = "compared with PyTorch" if compare else "alone"
    print(
        f"{done} statements {against}, {len(findings.counts)} kinds of findings (seed {options.seed}), "
        f"{time.monotonic() - began:.0f} s"
    )
    short = done < options.statements - BATCH * STEPS
    return 1 if findings.counts or short else 0


if __name__ == "__main__":
    sys.exit(main())
