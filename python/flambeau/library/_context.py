"""Contexts of fake kernels: sizes that only data could tell."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

_thread = threading.local()
_FIRST = 1009  # a size that samples hardly have


class FakeContext:
    """What `get_ctx` gives: makes sizes in place of those that depend on data.

    Example:
        >>> from flambeau.library._context import FakeContext
        >>> FakeContext().new_dynamic_size(min=2, max=8)
        8
    """

    def __init__(self) -> None:
        self._bounds: dict[int, tuple[int, int | None]] = {}

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Return a size that stands for one between bounds.

        Args:
            min: the least size, 0 or more.
            max: the greatest size. None means that there is none.
        """
        for name, bound in (("min", min), ("max", max)):
            if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool)):
                raise ValueError(f"new_dynamic_size: expected an int as {name}, got {bound!r}")
        if min < 0:
            raise ValueError(f"new_dynamic_size: expected min to be greater than or equal to 0, got {min}")
        if max is not None and max < min:
            raise ValueError(f"new_dynamic_size: expected max of at least min={min}, got {max}")
        wanted = _FIRST + len(self._bounds)
        size = wanted if max is None or wanted <= max else max
        if size < min:
            size = min
        self._bounds[size] = (min, max)
        return size

    create_unbacked_symint = new_dynamic_size

    def agrees(self, made: int, real: int) -> bool:
        """Whether a size that a fake kernel gave can stand for a real one."""
        if made == real:
            return True
        if made not in self._bounds:
            return False
        least, greatest = self._bounds[made]
        return least <= real and (greatest is None or real <= greatest)


@contextlib.contextmanager
def context() -> Iterator[FakeContext]:
    """Run a block in which fake kernels may ask for sizes."""
    before = getattr(_thread, "context", None)
    _thread.context = FakeContext()
    try:
        yield _thread.context
    finally:
        _thread.context = before


class _WithoutSizes(FakeContext):
    """A context in which a fake kernel that asks for a size raises an error.

    Args:
        error: makes the error.
    """

    def __init__(self, error: Callable[[], Exception]) -> None:
        super().__init__()
        self._error = error

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Raise the error."""
        raise self._error()

    create_unbacked_symint = new_dynamic_size


@contextlib.contextmanager
def without_sizes(error: Callable[[], Exception]) -> Iterator[None]:
    """Run a block in which fake kernels that ask for sizes raise an error.

    Args:
        error: makes the error.
    """
    before = getattr(_thread, "context", None)
    _thread.context = _WithoutSizes(error)
    try:
        yield
    finally:
        _thread.context = before


def current() -> FakeContext | None:
    """The context of the thread."""
    return getattr(_thread, "context", None)


def runs_on_meta() -> bool:
    """Whether the thread runs a fake kernel on meta tensors."""
    return getattr(_thread, "on_meta", 0) > 0


def fake_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a fake kernel that is noted while it runs; see `runs_on_meta`.

    Args:
        function: the kernel.
    """

    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        _thread.on_meta = getattr(_thread, "on_meta", 0) + 1
        try:
            return function(*args, **kwargs)
        finally:
            _thread.on_meta -= 1

    return noted
