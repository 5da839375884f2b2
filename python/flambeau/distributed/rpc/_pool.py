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
from typing import Protocol

_log = logging.getLogger("flambeau.distributed.rpc")
# .pool: the pool that the thread belongs to; .lead: what it reads from afterwards; .gathered: see first_of
_here = threading.local()
_TICK = 0.001  # seconds between looks at tasks that readers run
_QUIET = 50  # looks without such a task, after which nobody looks
_FEW_ALARMS = 1024
_JOIN = 2.0  # seconds that `close` waits for functions that still run

Task = Callable[[], None]


def _perform(task: Task) -> None:
    try:
        task()
    except Exception:
        _log.exception("a task of a remote procedure call failed")


class _Seat:
    """Where an idle thread waits for what it does next."""

    __slots__ = ("_called", "_task")

    def __init__(self) -> None:
        self._called = threading.Lock()
        self._called.acquire()
        self._task: Task | None = None

    def call(self, task: Task | None) -> None:
        self._task = task
        self._called.release()

    def wait(self) -> Task | None:
        self._called.acquire()
        task, self._task = self._task, None
        return task


class Reader(Protocol):
    """What threads of a pool read messages from, one at a time."""

    def read_on(self) -> bool:
        """Read until the end, which returns False, or until another thread reads."""


class Lead:
    """A thread that has read a task and runs it, before it reads on.

    Args:
        reader: what it reads from.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader, self.is_late = reader, False


class Pool:
    """At most `size` running threads, and more that wait or read.

    The thread that reads a task runs it itself if there is room, so that it need not wait for another
    thread to wake up. If the task takes long, or waits, another thread reads on.

    Args:
        size: how many tasks run at the same time.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._tasks: deque[Task] = deque()
        self._lock = threading.Lock()
        self._running = self._reading = 0
        self._idle: list[_Seat] = []
        self._threads: set[threading.Thread] = set()
        self._leads: set[Lead] = set()
        self._watcher: _Seat | None = None  # where the thread that watches leads waits for one
        self._closed = False
        watch = threading.Thread(target=self._watch, name="flambeau rpc watch", daemon=True)
        self._threads.add(watch)
        watch.start()

    def submit(self, task: Task) -> None:
        """Run a task in a thread of the pool; a closed pool drops it."""
        gathered: list[Task] | None = getattr(_here, "gathered", None)
        if gathered is not None:
            gathered.append(task)
            return
        with self._lock:
            if not self._closed:
                self._tasks.append(task)
                self._employ()

    def first_of(self, call: Task) -> Task | None:
        """Return the first task that a function submits, for this thread to run, and submit the others."""
        gathered: list[Task] = []
        _here.gathered = gathered
        try:
            call()
        finally:
            _here.gathered = None
        for task in gathered[1:]:
            self.submit(task)
        return gathered[0] if gathered else None

    def read(self, reader: Reader) -> None:
        """Let a thread read until the end."""
        with self._lock:
            self._reading += 1
            self._assign(lambda: self._read(reader))

    def lead(self, reader: Reader, task: Task) -> bool:
        """Run a task that this thread has read, or let another one run it.

        Returns: whether this thread reads on; otherwise another one does.
        """
        with self._lock:
            if self._closed:
                return True
            if self._tasks or self._running >= self._size:
                self._tasks.append(task)
                self._employ()
                return True
            self._running += 1
            self._leads.add(lead := Lead(reader))
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.call(None)
        _here.lead = lead
        _perform(task)
        _here.lead = None
        with self._lock:
            if lead not in self._leads:
                return False
            self._leads.remove(lead)
            self._running -= 1
            self._employ()
            return True

    def _follow(self, lead: Lead) -> None:
        """Let another thread read on; the lock is held."""
        self._leads.discard(lead)
        self._assign(lambda: self._read(lead.reader))

    def _watch(self) -> None:
        """Find the tasks that take long, with few wake-ups while there are many short ones or none."""
        seat, quiet = _Seat(), 0
        while True:
            time.sleep(_TICK)
            with self._lock:
                if self._closed:
                    return
                quiet = 0 if self._leads else quiet + 1
                for lead in [lead for lead in self._leads if lead.is_late]:
                    self._follow(lead)
                for lead in self._leads:
                    lead.is_late = True
                if quiet < _QUIET:
                    continue
                self._watcher = seat
            seat.wait()
            quiet = 0

    def _employ(self) -> None:
        """Assign the next task if there is room for it; the lock is held."""
        if self._tasks and self._running < self._size:
            self._running += 1
            self._assign(self._tasks.popleft())

    def _assign(self, task: Task) -> None:
        if self._idle:
            self._idle.pop().call(task)
            return
        thread = threading.Thread(target=self._work, args=(task,), name="flambeau rpc worker", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _read(self, reader: Reader) -> None:
        if not reader.read_on():
            with self._lock:
                self._reading -= 1
                self._running += 1  # as after a task

    def _work(self, first: Task) -> None:
        _here.pool = self
        task: Task | None = first
        del first
        seat = _Seat()
        while task is not None:
            _perform(task)
            task = None  # what it holds is free while the thread is idle
            task = self._next(seat)
        with self._lock:
            self._threads.discard(threading.current_thread())

    def _next(self, seat: _Seat) -> Task | None:
        """Return the next task; None ends the thread. A thread that asks counts as running."""
        with self._lock:
            if self._tasks and self._running <= self._size and not self._closed:
                return self._tasks.popleft()
            self._running -= 1
            if self._closed or len(self._threads) - 1 - self._reading > self._size + self._size // 2:
                return None
            self._idle.append(seat)
        return seat.wait()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a wait for other tasks or workers: another thread may run meanwhile."""
        if getattr(_here, "pool", None) is not self:
            yield
            return
        with self._lock:
            self._running -= 1
            lead = getattr(_here, "lead", None)
            if lead in self._leads:
                self._follow(lead)
            self._employ()
        try:
            yield
        finally:
            with self._lock:
                self._running += 1

    def load(self) -> int:
        """Return the number of tasks that run or wait for a thread."""
        with self._lock:
            return self._running + len(self._tasks)

    def drain(self) -> None:
        """Wait until no task runs, but not without end."""
        until = time.monotonic() + _JOIN
        while self.load() and time.monotonic() < until:
            time.sleep(0.001)

    def close(self) -> None:
        """Drop the tasks that did not start, and wait for those that run, but not without end."""
        with self._lock:
            self._closed = True
            self._tasks.clear()
            for seat in self._idle:
                seat.call(None)
            self._idle.clear()
            if self._watcher is not None:
                self._watcher.call(None)
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
