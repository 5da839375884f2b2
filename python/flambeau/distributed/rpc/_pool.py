"""Threads that run the functions of other workers, and a clock.

A thread that waits for an answer is not counted among the running ones, so a function may call other
workers, to any depth and also in a circle, whatever the number of threads is.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator

_log = logging.getLogger("flambeau.distributed.rpc")
_here = threading.local()  # .pool: the pool that the thread belongs to
_FEW_ALARMS = 1024
_JOIN = 2.0  # seconds that `close` waits for functions that still run

Task = Callable[[], None]


class Pool:
    """At most `size` running threads, and more that wait.

    Args:
        size: how many tasks run at the same time.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._tasks: deque[Task] = deque()
        self._changed = threading.Condition()
        self._running = self._idle = 0
        self._threads: set[threading.Thread] = set()
        self._closed = False

    def submit(self, task: Task) -> None:
        """Run a task in a thread of the pool; a closed pool drops it."""
        with self._changed:
            if not self._closed:
                self._tasks.append(task)
                self._employ()

    def _employ(self) -> None:
        """Wake or start a thread if there is a task and room for it; the lock is held."""
        if not self._tasks or self._running >= self._size:
            return
        self._running += 1
        if self._idle:
            self._idle -= 1  # here, so that the next task does not count on the same thread
            self._changed.notify()
            return
        thread = threading.Thread(target=self._work, name="flambeau rpc worker", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _work(self) -> None:
        _here.pool = self
        try:
            while (task := self._next()) is not None:
                try:
                    task()
                except Exception:
                    _log.exception("a task of a remote procedure call failed")
                del task  # what it holds is free while the thread is idle
        finally:
            with self._changed:
                self._running -= 1
                self._threads.discard(threading.current_thread())

    def _next(self) -> Task | None:
        """Return the next task; None ends the thread. A thread that asks counts as running."""
        with self._changed:
            while not self._closed:
                if self._tasks and self._running <= self._size:
                    return self._tasks.popleft()
                if len(self._threads) > self._size + self._size // 2:
                    return None
                self._running -= 1
                self._idle += 1
                self._changed.wait()  # who notifies counts the thread as running
            return None

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a wait for other tasks or workers: another thread may run meanwhile."""
        if getattr(_here, "pool", None) is not self:
            yield
            return
        with self._changed:
            self._running -= 1
            self._employ()
        try:
            yield
        finally:
            with self._changed:
                self._running += 1

    def load(self) -> int:
        """Return the number of tasks that run or wait for a thread."""
        with self._changed:
            return self._running + len(self._tasks)

    def drain(self) -> None:
        """Wait until no task runs, but not without end."""
        until = time.monotonic() + _JOIN
        while self.load() and time.monotonic() < until:
            time.sleep(0.001)

    def close(self) -> None:
        """Drop the tasks that did not start, and wait for those that run, but not without end."""
        with self._changed:
            self._closed = True
            self._tasks.clear()
            self._running, self._idle = self._running + self._idle, 0
            self._changed.notify_all()
            threads = set(self._threads)
        until = time.monotonic() + _JOIN
        for thread in threads - {threading.current_thread()}:
            thread.join(max(until - time.monotonic(), 0))


class Clock:
    """Ends calls when their time is over, in a thread of its own.

    Args:
        waiting: the numbers of the calls that wait; others need no alarm.
        ring: called with the number of a call and its time-out in seconds.
    """

    def __init__(self, waiting: Container[int], ring: Callable[[int, float], None]) -> None:
        self._waiting, self._ring = waiting, ring
        self._alarms: list[tuple[float, int, float]] = []
        self._most = _FEW_ALARMS
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="flambeau rpc clock", daemon=True)
        self._thread.start()

    def at(self, deadline: float, number: int, seconds: float) -> None:
        """Ring for a call when `time.monotonic()` reaches `deadline`."""
        with self._changed:
            if len(self._alarms) >= self._most:  # most of the calls have been answered
                self._alarms = [alarm for alarm in self._alarms if alarm[1] in self._waiting]
                heapq.heapify(self._alarms)
                self._most = max(2 * len(self._alarms), _FEW_ALARMS)
            heapq.heappush(self._alarms, (deadline, number, seconds))
            if self._alarms[0][1] == number:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                if self._closed:
                    return
                if not self._alarms or self._alarms[0][0] > now:
                    self._changed.wait(min(self._alarms[0][0] - now, 3600) if self._alarms else None)
                    continue
                _, number, seconds = heapq.heappop(self._alarms)
            self._ring(number, seconds)

    def close(self) -> None:
        """End the thread; alarms that did not ring are dropped."""
        with self._changed:
            self._closed = True
            self._alarms.clear()
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN)
