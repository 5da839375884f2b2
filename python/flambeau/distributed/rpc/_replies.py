"""Futures of answers: they wait without a thread of the pool, and read the answer when it is used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from flambeau.distributed._gradient_contexts import keeping
from flambeau.distributed.rpc._pool import Pool
from flambeau.futures import Future


class PoolFuture(Future[Any]):
    """A future whose callbacks run in the pool.

    Args:
        pool: the threads of the worker.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self._pool = pool

    def wait(self) -> Any:
        """Return the value when it is there, or raise the exception."""
        if not self.done():
            with self._pool.waiting():
                self._wait()
        return self.value()

    def _when_done(self, callback: Callable[[Future[Any]], Any]) -> None:
        super()._when_done(keeping(callback))

    def _following(self) -> Future[Any]:
        return PoolFuture(self._pool)

    def _call(self, callbacks: list[Callable[[Future[Any]], Any]]) -> None:
        for callback in callbacks:
            self._pool.submit(lambda callback=callback: callback(self))  # type: ignore[misc]

    def settle(self, value: Any = None, error: BaseException | None = None) -> bool:
        """Set the value or the exception if there is none yet; whether that was so."""
        try:
            self._complete(value, error)
        except RuntimeError:
            return False
        return True


class Reply(PoolFuture):
    """The answer to a call. The thread that uses it first unpickles it.

    Args:
        pool: the threads of the worker.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._read: Callable[[], Any] | None = None
        self._reading = threading.RLock()

    def arrive(self, read: Callable[[], Any]) -> None:
        """Note that the answer is there; `read` returns it or raises its exception."""
        self._read = read
        self.settle()

    def value(self) -> Any:
        """Return the value, or raise the exception."""
        if self._read is not None and self.done():
            with self._reading:
                if (read := self._read) is not None:
                    try:
                        self._value = read()
                    except Exception as error:
                        self._error = error
                    self._read = None
        return super().value()
