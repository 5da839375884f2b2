"""Worker processes that answer lines: what crashes or hangs in one ends nothing but its own question."""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Another build of the package than the one beside its sources.
PACKAGE = ROOT / os.environ.get("FLAMBEAU_PACKAGE", "python")


class Worker:
    """A process of `python -m MODULE` that reads a question per line and answers each with a line of JSON.

    It says "ready" once it can. `limit` is in seconds per question.
    """

    def __init__(self, module: str, limit: float, errors: Any, environment: Mapping[str, str] | None = None):
        self.command = [sys.executable, "-m", module]
        self.limit = limit
        self.errors = errors
        path = os.pathsep.join(map(str, (PACKAGE, ROOT / "test", ROOT)))
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **(environment or {})}
        self.process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=ROOT,
            env=self.environment,
        )
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{self.command[-1]}: a worker did not start; its message is in the log")
        return process

    def ask(self, question: str) -> Any:
        """The answer, or as a string what became of the process."""
        if self.process is None:
            self.process = self._start()
        self.process.stdin.write(f"{question}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], self.limit)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        if not ready:
            self.process.kill()
        status = self.process.wait()
        self.process = None
        return f"crash: exit status {status}" if ready else f"timeout after {self.limit:g} s"

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def ask_all(questions: Iterable[tuple[Any, str]], workers: list[Worker], show: Callable[[Any], None]) -> dict:
    """The answers to all (name, question), by name; each worker takes the next one when it is free."""
    waiting: queue.Queue[tuple[Any, str]] = queue.Queue()
    for question in questions:
        waiting.put(question)
    answers: dict[Any, Any] = {}
    problems: list[RuntimeError] = []

    def work(worker: Worker) -> None:
        while not problems:
            try:
                name, question = waiting.get_nowait()
            except queue.Empty:
                break
            try:
                answers[name] = worker.ask(question)
            except RuntimeError as problem:
                problems.append(problem)
                break
            show(name)
        worker.close()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise SystemExit(str(problems[0]))
    return dict(sorted(answers.items()))


def serve(answer: Callable[[str], Any]) -> None:
    """The worker's side: answer each line of stdin; what the answers print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(line.strip())), file=answers, flush=True)
