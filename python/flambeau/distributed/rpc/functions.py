"""Functions whose answer is a future."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau._loading.lazy import attributes

__all__ = ["async_execution"]


def async_execution(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that returns a `Future`: a caller in another worker gets the future's value.

    No thread waits for the future, so a worker can have any number of such calls that are not complete. With
    `staticmethod` or `classmethod`, this decorator is the inner one.

    Args:
        fn: the function.
    Returns: a function that calls it.

    Example:
        >>> @flambeau.distributed.rpc.functions.async_execution
        ... def added_later(to, x, y):
        ...     return rpc.rpc_async(to, flambeau.add, args=(x, y)).then(lambda future: future.wait() + 1)
        >>> added_later.__name__
        'added_later'
    """

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    wrapper._flambeau_async_execution = True  # type: ignore[attr-defined]
    return wrapper


__getattr__, __dir__ = attributes(__name__)
