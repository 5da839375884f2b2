"""Start processes that run one function, and report the first failure."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


class ProcessException(Exception):
    """A process failed.

    Args:
        msg: what happened.
        error_index: which process.
        error_pid: its number in the system.

    Example:
        >>> error = flambeau.multiprocessing.ProcessException("it failed", 1, 4711)
        >>> error.error_index, error.pid
        (1, 4711)
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid
        self.pid = error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised an exception in one process; the message has its traceback.

    Args:
        msg: the message.
        error_index: the index of the process.
        error_pid: its number in the system.

    Example:
        >>> error = flambeau.multiprocessing.ProcessRaisedException("ValueError: no data", 0, 4711)
        >>> str(error)
        'ValueError: no data'
    """


class ProcessExitedException(ProcessException):
    """A process ended by a signal or by `exit()`, before the function returned.

    Args:
        msg: the message.
        error_index: the index of the process.
        error_pid: its number in the system.
        exit_code: the exit status; the negative number of a signal.
        signal_name: the signal's name, if a signal ended the process.

    Example:
        >>> error = flambeau.multiprocessing.ProcessExitedException("ended", 0, 4711, -9, "SIGKILL")
        >>> error.exit_code, error.signal_name
        (-9, 'SIGKILL')
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], report: str) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent is interrupted as well
    except Exception:
        Path(report).write_bytes(pickle.dumps(traceback.format_exc()))
        sys.exit(1)


class ProcessContext:
    """The processes of one `start_processes`.

    Args:
        processes: the processes.
        error_files: where each of them writes its traceback.

    Example:
        >>> context = flambeau.multiprocessing.start_processes(print, nprocs=0, join=False)
        >>> context.pids(), context.join()
        ([], True)
    """

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.processes, self.error_files = processes, error_files
        self._running = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int | None]:
        """Return the processes' numbers."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for one process or more to end; whether all have. A failure ends the others.

        Args:
            timeout: how long to wait, in seconds; None: until one ends.
            grace_period: how long the others may take to end after a failure, in seconds.
        Raises: ProcessRaisedException, ProcessExitedException for the first that failed.
        """
        if not self._running:
            return True
        ended = multiprocessing.connection.wait(list(self._running), timeout)
        for sentinel in ended:
            index = self._running.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                self._stop(grace_period)
                raise self._failure(index)
        if not self._running:
            self._remove_reports()
        return not self._running

    def _stop(self, grace_period: float | None) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(30 if grace_period is None else grace_period)
            if process.is_alive():
                process.kill()
                process.join()

    def _remove_reports(self) -> None:
        for report in self.error_files:
            Path(report).unlink(missing_ok=True)

    def _failure(self, index: int) -> ProcessException:
        process, report = self.processes[index], Path(self.error_files[index])
        text = report.read_bytes() if report.exists() else b""
        self._remove_reports()
        if text:
            message = f"\n\n-- Process {index} terminated with an exception:\n{pickle.loads(text)}"
            return ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            message = f"process {index} terminated with signal {name}"
            return ProcessExitedException(message, index, process.pid, code, name)
        return ProcessExitedException(
            f"process {index} terminated with exit code {code}", index, process.pid, code
        )


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(i, *args)`` in processes i = 0 .. nprocs - 1.

    Args:
        fn: the function; a spawned process imports it by its name.
        args: what follows the index.
        nprocs: how many processes.
        join: wait for all of them, and return None.
        daemon: end them with this process.
        start_method: "spawn", "fork" or "forkserver".

    Returns: the processes; None with `join`.

    Raises: ProcessRaisedException and ProcessExitedException with `join`, as `ProcessContext.join`.

    Example:
        >>> import math
        >>> flambeau.multiprocessing.start_processes(math.sqrt, nprocs=2, start_method="fork")
    """
    context = multiprocessing.get_context(start_method)
    processes, reports = [], []
    for i in range(nprocs):
        descriptor, report = tempfile.mkstemp(prefix="flambeau-process-", suffix=".error")
        os.close(descriptor)
        Path(report).unlink()
        process = context.Process(target=_run, args=(fn, i, args, report), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        processes.append(process)
        reports.append(report)
    running = ProcessContext(processes, reports)
    if not join:
        return running
    while not running.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(i, *args)`` in fresh processes i = 0 .. nprocs - 1.

    Args: as for `multiprocessing.start_processes`.

    Returns: the processes; None with `join`.

    Raises: ProcessRaisedException and ProcessExitedException with `join`, as `ProcessContext.join`.

    Example:
        >>> import math
        >>> flambeau.multiprocessing.spawn(math.sqrt, nprocs=1)
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)
