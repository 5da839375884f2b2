"""One iterator at a time over a stream: beginning another one makes the first raise RuntimeError.

A class of streams is changed when it is defined: its `__iter__` counts the iterators of an instance, and each
iterator compares its number before every item. A generator function counts when its first item is asked for,
any other `__iter__` at once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any


def check(pipe: Any, number: int) -> None:
    """Raise RuntimeError if the iterator with this number is not the last one."""
    if not pipe._is_current(number):
        raise RuntimeError(
            f"{type(pipe).__name__}: This iterator has been invalidated, since another one over "
            f"{pipe!r} began later; use fork() to read one source several times"
        )


class _Checked:
    """An iterator that checks its number before each item."""

    def __init__(self, iterator: Iterator[Any], pipe: Any, number: int) -> None:
        self._iterator, self._pipe, self._number = iterator, pipe, number

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        check(self._pipe, self._number)
        return next(self._iterator)  # TypeError if it is none

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


def _of_generator(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def items(pipe: Any, *args: Any, **kwargs: Any) -> Any:
        number = pipe._begin()
        generator = function(pipe, *args, **kwargs)
        try:
            check(pipe, number)
            item = next(generator)
            while True:
                sent = yield item
                check(pipe, number)
                item = generator.send(sent)
        except StopIteration:
            return
        finally:
            generator.close()

    return items


def _of_iterator(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def items(pipe: Any, *args: Any, **kwargs: Any) -> Any:
        iterator = function(pipe, *args, **kwargs)  # may read the pipe, as a method of its base class does
        return _Checked(iterator, pipe, pipe._begin())

    return items


def single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an `__iter__` whose iterators end when another one begins."""
    if getattr(function, "_is_single", False):
        return function
    made = _of_generator(function) if inspect.isgeneratorfunction(function) else _of_iterator(function)
    vars(made)["_is_single"] = True
    return made
