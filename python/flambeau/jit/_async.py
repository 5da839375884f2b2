"""fork and wait: a call that may run later. Here it runs at once, in the same thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.futures import Future

__all__ = ["Future", "fork", "wait"]


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Call a function and return its result as a Future.

    >>> wait(fork(lambda a, b: a + b, 1, 2))
    3
    """
    made: Future[Any] = Future()
    try:
        made.set_result(func(*args, **kwargs))
    except Exception as error:
        made.set_exception(error)
    return made


def wait(future: Future[Any]) -> Any:
    """Return the value of a Future, or raise what the call raised."""
    return future.wait()
