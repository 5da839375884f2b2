"""Values that another thread will set."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flambeau._loading.lazy import attributes

__all__ = ["Future", "collect_all", "wait_all"]

Value = TypeVar("Value")


class Future(Generic[Value]):
    """Value, or exception, that is set once, with callbacks that are called then.

    Args:
        devices: no effect.

    Example:
        >>> future = flambeau.futures.Future()
        >>> doubled = future.then(lambda f: 2 * f.value())
        >>> future.set_result(21)
        >>> doubled.wait()
        42
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._gate = threading.Lock()  # open when there is a value; cheaper than an Event
        self._gate.acquire()
        self._is_done = False
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Future[Value]], Any]] = []
        self._value: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether there is a value or an exception."""
        return self._is_done

    def wait(self) -> Value:
        """Return the value when it is there, or raise the exception."""
        self._wait()
        return self.value()

    def _wait(self) -> None:
        if not self._is_done:
            with self._gate:  # left open for the next one that waits
                pass

    def value(self) -> Value:
        """Return the value, or raise the exception. Raises: RuntimeError if neither is there yet."""
        if not self.done():
            raise RuntimeError("Future.value: the future is not completed; wait() waits for it")
        if self._error is not None:
            raise self._error
        return self._value

    def then(self, callback: Callable[[Future[Value]], Any]) -> Future[Any]:
        """Return a future of what `callback` returns for this one."""
        following = self._following()

        def call(future: Future[Value]) -> None:
            try:
                following.set_result(callback(future))
            except Exception as error:
                following.set_exception(error)

        self._when_done(call)
        return following

    def _following(self) -> Future[Any]:
        return Future()

    def add_done_callback(self, callback: Callable[[Future[Value]], Any]) -> None:
        """Call `callback` with this future when it is done; its exceptions are printed, not raised."""

        def call(future: Future[Value]) -> None:
            try:
                callback(future)
            except Exception:
                import traceback

                traceback.print_exc()

        self._when_done(call)

    def _when_done(self, callback: Callable[[Future[Value]], Any]) -> None:
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        self._call([callback])

    def _call(self, callbacks: list[Callable[[Future[Value]], Any]]) -> None:
        for callback in callbacks:
            callback(self)

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError(
                    "Future: expected a future without a result, got one that is completed already"
                )
            self._value, self._error = value, error
            self._is_done = True
            self._gate.release()
            callbacks, self._callbacks = self._callbacks, []
        self._call(callbacks)

    def set_result(self, result: Value) -> None:
        """Set the value. Raises: RuntimeError if the future is done."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set the exception that `wait` and `value` raise."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"set_exception: expected an exception, got {type(result).__name__}")
        self._complete(None, result)


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a future of a list of futures; it is done when all of them are.

    Args:
        futures: the futures.
    Returns: a future whose value is the list of futures.

    Example:
        >>> a, b = flambeau.futures.Future(), flambeau.futures.Future()
        >>> both = flambeau.futures.collect_all([a, b])
        >>> a.set_result(1)
        >>> b.set_result(2)
        >>> [future.wait() for future in both.wait()]
        [1, 2]
    """
    every: Future[list[Future[Any]]] = Future()
    left = len(futures)
    lock = threading.Lock()

    def count(_: Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            every.set_result(futures)

    if not futures:
        every.set_result([])
    for future in futures:
        future._when_done(count)
    return every


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """Return the values of all futures, after waiting for them.

    Args:
        futures: the futures.
    Returns: a list of their values.
    Raises: the first exception in the list, if a future has one.

    Example:
        >>> a = flambeau.futures.Future()
        >>> a.set_result(1)
        >>> flambeau.futures.wait_all([a])
        [1]
    """
    return [future.wait() for future in collect_all(futures).wait()]


__getattr__, __dir__ = attributes(__name__)
