"""Operations that have been posted: waiting for them, what they still have to do, and their futures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from flambeau.distributed._errors import DistBackendError
from flambeau.futures import Future

if TYPE_CHECKING:
    from flambeau.distributed._engine import Request

__all__ = ["Work"]

_SLICE = 0.2  # seconds without the interpreter: how late Ctrl-C may come
_LOOK_EVERY = 0.0002  # seconds between looks at operations with futures


class Work:
    """An operation of a process group that may still run.

    Backends in Python derive from it and override `wait` or `get_future`.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> work = dist.all_reduce(flambeau.ones(2), async_op=True)
        >>> work.wait(), work.is_completed()
        (True, True)
        >>> dist.destroy_process_group()
    """

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the operation has ended; its results are then in the tensors. Raises: what failed."""
        return True

    def is_completed(self) -> bool:
        """Whether the operation has ended, well or not."""
        return True

    def is_success(self) -> bool:
        """Whether the operation has ended well."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """Return what failed, or None."""
        return None

    def result(self) -> list[Any]:
        """Return the tensors with the results."""
        return []

    def source_rank(self) -> int:
        """Return the rank, in the group, of the sender of what was received."""
        raise RuntimeError("Work.source_rank: expected a receiving operation, got another one")

    def synchronize(self) -> None:
        """Wait until the operation has ended."""
        self.wait()

    def block_current_stream(self) -> None:
        """Wait until the operation has ended; the CPU has no streams."""
        self.wait()

    def get_future(self) -> Future[Any]:
        """Return a future of `result`."""
        future: Future[Any] = Future()
        future.set_result(self.result())
        return future


Work.__module__ = "flambeau.distributed"


class DoneWork(Work):
    """An operation that ended before it was returned.

    Args:
        results: the tensors with the results.
        source: the rank that sent what was received.
    """

    def __init__(self, results: Iterable[Any] = (), source: int | None = None) -> None:
        self._results, self._source = list(results), source

    def result(self) -> list[Any]:
        """Return the tensors with the results."""
        return self._results

    def source_rank(self) -> int:
        """Return the rank of the sender."""
        return super().source_rank() if self._source is None else self._source


class EngineWork(Work):
    """An operation of the engine.

    Args:
        name: the operation, for errors.
        request: what the engine returned.
        keeps: the buffers, which must live until the operation has ended.
        results: the tensors with the results.
        seconds: how long the operation may take.
        finish: what remains to be done with the buffers afterwards.
    """

    def __init__(
        self,
        name: str,
        request: Request,
        keeps: Any,
        results: list[Any],
        seconds: float,
        finish: Callable[[], None] | None = None,
    ) -> None:
        self._name, self._request, self._results, self._seconds = name, request, results, seconds
        self._finish = finish
        self._posted = time.monotonic()
        self._lock = threading.Lock()
        self._future: Future[Any] | None = None
        _outstanding.keep(request, keeps)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the operation has ended."""
        seconds = self._seconds if timeout is None or timeout < timedelta() else timeout.total_seconds()
        since = time.monotonic()
        while not self._request.wait(min(_SLICE, seconds)):
            if time.monotonic() - since >= seconds:
                self._request.expire(f"timed out after {int(seconds * 1000)}ms")
        if error := self.exception():
            raise error
        self._complete()
        _outstanding.forget_ended()
        return True

    def _complete(self) -> None:
        with self._lock:
            finish, self._finish = self._finish, None
            if finish is not None:
                finish()

    def is_completed(self) -> bool:
        """Whether the operation has ended, well or not."""
        if not self._request.done():
            return False
        if not self._request.error():
            self._complete()
        return True

    def exception(self) -> BaseException | None:
        """Return what failed, or None."""
        why = self._request.error()
        return DistBackendError(f"{self._name}: {why}") if why else None

    def result(self) -> list[Any]:
        """Return the tensors with the results."""
        return self._results

    def source_rank(self) -> int:
        """Return the rank of the sender."""
        return self._request.source()

    def expire_if_late(self) -> None:
        """Let the operation fail if its time has passed."""
        if time.monotonic() - self._posted > self._seconds:
            self._request.expire(f"timed out after {int(self._seconds * 1000)}ms")

    def get_future(self) -> Future[Any]:
        """Return a future of `result`, which a thread completes when the operation has ended."""
        with self._lock:
            if self._future is None:
                self._future = Future()
                _completions.add(self, self._future)
            return self._future


class _Outstanding:
    """Buffers of operations that have not ended, also if the program dropped the work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[tuple[Request, Any]] = []

    def keep(self, request: Request, buffers: Any) -> None:
        """Keep buffers until a request has ended well; MPI may write to those of a failed one for ever."""
        with self._lock:
            self._forget_ended()
            self._kept.append((request, buffers))

    def forget_ended(self) -> None:
        """Drop the buffers of requests that have ended well."""
        with self._lock:
            self._forget_ended()

    def _forget_ended(self) -> None:
        if self._kept:
            self._kept = [pair for pair in self._kept if not pair[0].done() or pair[0].error()]


class _Completions:
    """The thread that completes futures of operations, also of those that no thread waits for."""

    def __init__(self) -> None:
        self._pending: list[tuple[EngineWork, Future[Any]]] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, work: EngineWork, future: Future[Any]) -> None:
        """Complete a future when its work has ended."""
        with self._changed:
            self._pending.append((work, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="flambeau futures", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending)
                pending = list(self._pending)
            ended = [pair for pair in pending if _has_ended(pair[0])]
            with self._changed:
                self._pending = [pair for pair in self._pending if pair not in ended]
            for work, future in ended:
                error = work.exception()
                if error is None:
                    future.set_result(work.result())
                else:
                    future.set_exception(error)
            if not ended:
                time.sleep(_LOOK_EVERY)


def _has_ended(work: EngineWork) -> bool:
    work.expire_if_late()
    return work.is_completed()


_outstanding = _Outstanding()
_completions = _Completions()
