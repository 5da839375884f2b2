"""fork and wait: a call that may run later. Here it runs at once, in the same thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Future", "fork", "wait"]


class Future:
    """The result of `fork`."""

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self._value, self._error = value, error

    def wait(self) -> Any:
        """Return the value, or raise what the call raised."""
        if self._error is not None:
            raise self._error
        return self._value

    value = wait

    def done(self) -> bool:
        """Whether the call has run: always."""
        return True

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return the future of a function of this one."""
        return fork(callback, self)


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call a function and return its result as a Future.

    >>> wait(fork(lambda a, b: a + b, 1, 2))
    3
    """
    try:
        return Future(func(*args, **kwargs))
    except Exception as error:
        return Future(error=error)


def wait(future: Future) -> Any:
    """Return the value of a Future, or raise what the call raised."""
    return future.wait()
