"""The processes that a launcher starts on one machine: their output, their ends, and ending them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from pathlib import Path
from typing import IO, Any

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_END_WITHIN = 30.0  # seconds between SIGTERM and SIGKILL
_LOOK_EVERY = 0.02  # seconds


class Std(IntFlag):
    """Streams of a process.

    >>> Std.parse("1:3,0:1", 3)
    [<Std.OUT: 1>, <Std.ALL: 3>, <Std.NONE: 0>]
    """

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = 3

    @classmethod
    def parse(cls, text: str, processes: int) -> list[Std]:
        """Return the streams of each process. Raises: ValueError for text that is not of the form."""
        try:
            if text.isdigit():
                return [cls(int(text))] * processes
            given = dict(pair.split(":") for pair in text.split(","))
            return [cls(int(given.get(str(i), 0))) for i in range(processes)]
        except ValueError:
            raise ValueError(f"run: expected 0 to 3, or rank:number pairs, got {text!r}") from None


@dataclass
class Logs:
    """Where the output of processes goes.

    Args:
        folder: the folder of the attempt; None: no files.
        redirects: streams that go to files alone.
        tee: streams that go to files and to the console.
        shown: local ranks whose output is shown; None: all.
        role: what lines of `tee` begin with.
    """

    folder: Path | None = None
    redirects: Sequence[Std] = ()
    tee: Sequence[Std] = ()
    shown: frozenset[int] | None = None
    role: str = "default"


@dataclass
class Worker:
    """One process and its open files."""

    rank: int
    local_rank: int
    process: subprocess.Popen[bytes]
    files: list[IO[bytes]] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    ended: float = 0.0  # when it was seen to have ended


def _die_with_parent() -> Callable[[], Any] | None:
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return lambda: prctl(_DEATH_SIGNAL, signal.SIGTERM)


def _copy(source: IO[bytes], to: list[IO[bytes]], console: IO[bytes] | None, prefix: bytes) -> None:
    for line in source:
        for file in to:
            file.write(line)
            file.flush()
        if console is not None:
            console.write(prefix + line)
            console.flush()
    source.close()


class Workers:
    """The processes of one attempt.

    Args:
        command: what each runs.
        environments: the environment of each, by local rank; RANK among them.
        logs: where output goes.
    """

    def __init__(self, command: Sequence[str], environments: Sequence[Mapping[str, str]], logs: Logs) -> None:
        self._preexec = _die_with_parent()
        self._logs = logs
        self.workers: list[Worker] = []
        try:
            for i, variables in enumerate(environments):
                self.workers.append(self._start(command, i, variables))
        except BaseException:
            self.end(signal.SIGTERM)
            raise

    def _start(self, command: Sequence[str], local_rank: int, variables: Mapping[str, str]) -> Worker:
        streams: dict[str, Any] = {}
        opened: list[IO[bytes]] = []
        copies = []
        for name, bit in (("stdout", Std.OUT), ("stderr", Std.ERR)):
            redirected = self._has(self._logs.redirects, local_rank, bit)
            teed = self._has(self._logs.tee, local_rank, bit)
            hidden = self._logs.shown is not None and local_rank not in self._logs.shown
            file = self._file(local_rank, name) if redirected or teed else None
            opened += [file] if file is not None else []
            if teed:
                streams[name] = subprocess.PIPE
                copies.append((name, [file] if file is not None else [], hidden))
            else:
                streams[name] = file or (subprocess.DEVNULL if hidden else None)
        environment = {**os.environ, **variables}
        process = subprocess.Popen(list(command), env=environment, preexec_fn=self._preexec, **streams)
        worker = Worker(int(variables["RANK"]), local_rank, process, opened)
        for name, files, hidden in copies:
            prefix = f"[{self._logs.role}{local_rank}]:".encode()
            console = None if hidden else getattr(sys, name).buffer
            arguments = (getattr(process, name), files, console, prefix)
            worker.threads.append(threading.Thread(target=_copy, args=arguments, daemon=True))
            worker.threads[-1].start()
        return worker

    @staticmethod
    def _has(streams: Sequence[Std], local_rank: int, bit: Std) -> bool:
        return bool(streams) and bool(streams[local_rank] & bit)

    def _file(self, local_rank: int, name: str) -> IO[bytes] | None:
        if self._logs.folder is None:
            return None
        folder = self._logs.folder / str(local_rank)
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / f"{name}.log").open("wb")

    def failed(self) -> list[Worker]:
        """Return the processes that have ended with an error, in the order of their ends."""
        now = time.monotonic()
        for worker in self.workers:
            if not worker.ended and worker.process.poll() is not None:
                worker.ended = now
        ended = [worker for worker in self.workers if worker.process.poll() not in (None, 0)]
        return sorted(ended, key=lambda worker: worker.ended)

    def all_ended(self) -> bool:
        """Whether no process runs any more."""
        return all(worker.process.poll() is not None for worker in self.workers)

    def end(self, by: signal.Signals) -> None:
        """End the processes that still run, by a signal and by SIGKILL if that is not enough."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(by)
        until = time.monotonic() + _END_WITHIN
        while not self.all_ended() and time.monotonic() < until:
            time.sleep(_LOOK_EVERY)
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.kill()
            worker.process.wait()
        self.close()

    def close(self) -> None:
        """Wait for the rest of the output, and close the files."""
        for worker in self.workers:
            for thread in worker.threads:
                thread.join(timeout=5)
            for file in worker.files:
                file.close()
