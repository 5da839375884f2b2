"""fork and wait: PyTorch may run the call later; flambeau runs it at once, in the same thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.futures import Future

__all__ = ["Future", "fork", "wait"]


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Call a function at once and return its result as a Future.

    Args:
        func: the function or module to call.
        *args: its positional arguments.
        **kwargs: its keyword arguments.
    Returns: a completed Future; an exception that the call raised is raised by `wait`.
    See also: jit.wait, futures.Future

    Example:
        >>> future = flambeau.jit.fork(lambda a, b: a + b, 1, 2)
        >>> flambeau.jit.wait(future)
        3
    """
    made: Future[Any] = Future()
    try:
        made.set_result(func(*args, **kwargs))
    except Exception as error:
        made.set_exception(error)
    return made


def wait(future: Future[Any]) -> Any:
    """Return the result of a call that `fork` made.

    Args:
        future: what `fork` returned, or any other Future; `wait` blocks until it is completed.
    Returns: the value of the Future.
    Raises: the exception of the call, if it raised one.

    Example:
        >>> flambeau.jit.wait(flambeau.jit.fork(max, 3, 4))
        4
    """
    return future.wait()
