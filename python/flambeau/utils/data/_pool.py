"""The workers of a DataLoader[Any], seen from the loader: started, asked, watched, ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.util
import os
import select
import signal
import socket
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from flambeau.utils.data._failure import Failure
from flambeau.utils.data._messages import Link
from flambeau.utils.data.worker import WorkerInfo, serve

if TYPE_CHECKING:
    from flambeau.utils.data.loader import DataLoader

# How long workers may take to end: when they are asked to, and after SIGTERM. In seconds.
_PATIENCE = (1.0, 1.0)


def _end(processes: list[Any], links: list[Link]) -> None:
    """End workers: by a message, then by SIGTERM, then by SIGKILL."""
    for link in links:
        with contextlib.suppress(OSError):
            link.send(None)
    for patience, insist in zip((*_PATIENCE, None), ("terminate", "kill", "join"), strict=True):
        deadline = None if patience is None else time.monotonic() + patience
        for process in processes:
            process.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        for process in processes:
            if process.is_alive():
                getattr(process, insist)()
    for link in links:
        link.close()
    for process in processes:
        process.close()
    processes.clear()
    links.clear()


class WorkerPool:
    """The processes of one loader.

    Args:
        loader: what they work for.
        seed: of the first worker; the next ones follow.
    """

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        context = loader.multiprocessing_context
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.timeout = loader.timeout
        self.owner = os.getpid()
        self.processes: list[Any] = []
        self.links: list[Link] = []
        self._arrived: deque[tuple[int, Any]] = deque()
        self._passes = 0
        self._user: weakref.ref[Any] | None = None
        try:
            for i in range(loader.num_workers):
                self._start(context, loader, WorkerInfo(i, loader.num_workers, seed + i, loader.dataset))
        except BaseException:
            _end(self.processes, self.links)
            raise
        # Runs when the pool is collected, and at exit before multiprocessing waits for its children.
        self.shutdown = multiprocessing.util.Finalize(
            self, _end, (self.processes, self.links), exitpriority=100
        )

    def _start(self, context: Any, loader: DataLoader[Any], info: WorkerInfo) -> None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.links.append(Link(mine))
        with theirs:
            inherited = list(self.links) if context.get_start_method() == "fork" else []
            process = context.Process(
                target=serve,
                args=(loader.fetcher, info, loader.worker_init_fn, os.getpid(), theirs, inherited),
                daemon=True,
            )
            process.start()
        self.processes.append(process)

    def alive(self) -> bool:
        """Whether every worker is running, as a child of this process."""
        if not self.processes or self.owner != os.getpid():
            return False
        return all(process.is_alive() for process in self.processes)

    def begin_pass(self, user: Any) -> int:
        """Return the number of a new pass; answers to requests of earlier ones are of no use any more."""
        self._passes += 1
        self._user = weakref.ref(user)
        return self._passes

    def is_busy(self) -> bool:
        """Whether a pass has requests that are not answered."""
        user = None if self._user is None else self._user()
        return user is not None and bool(user._owner)

    def ask(self, worker: int, request: Any) -> None:
        """Send a request to a worker; if it has ended, the next wait for its answer reports this."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.links[worker].send(request)

    def receive(self) -> tuple[int, Any]:
        """Wait for a worker's answer; return the worker's number and the answer.

        Raises: RuntimeError if a worker has ended, or none answers in time.
        """
        if self.owner != os.getpid():
            raise RuntimeError("DataLoader: an iterator with workers cannot be used in a forked process")
        deadline = time.monotonic() + self.timeout if self.timeout else None
        while not self._arrived:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise RuntimeError(
                    f"DataLoader: DataLoader timed out after {self.timeout} seconds; pass a larger timeout, "
                    "or look why the dataset is slow"
                )
            self._wait(left)
        return self._arrived.popleft()

    def _wait(self, seconds: float | None) -> None:
        """Wait until something happens, and take what has arrived."""
        poller = select.poll()
        for link in self.links:
            poller.register(link, select.POLLIN | (select.POLLOUT if link.has_outgoing else 0))
        for process in self.processes:
            poller.register(process.sentinel, select.POLLIN)
        happened = dict(poller.poll(None if seconds is None else max(1, int(seconds * 1000))))
        ended = None
        for worker, (link, process) in enumerate(zip(self.links, self.processes, strict=True)):
            # Read after the process has ended, so that nothing comes later.
            has_ended = process.sentinel in happened
            if has_ended or link.fileno() in happened:
                self._exchange(worker, link)
            if has_ended or not link.is_open:
                ended = worker
        if ended is not None and not self._arrived:
            raise self._death(ended)

    def _exchange(self, worker: int, link: Link) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            link.flush()  # what it has sent before it ended is still there
        self._arrived.extend((worker, message) for message in link.read())

    def _death(self, worker: int) -> RuntimeError:
        """Say how a worker ended, or what it said before it did."""
        process = self.processes[worker]
        process.join(1)
        code = process.exitcode
        if code is None:
            how = "it closed its connection"
        elif code < 0:
            how = f"killed by signal: {signal.strsignal(-code) or 'unknown'} ({-code})"
        else:
            how = f"exit code {code}"
        return RuntimeError(f"DataLoader worker (pid(s) {process.pid}) exited early: worker {worker}, {how}")


def raise_if_failed(answer: Any) -> None:
    """Raise the exception that came as an answer."""
    if isinstance(answer, Failure):
        raise answer.exception()
