"""Marks of ranges for the profiler."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau.utils._contextlib import context_decorator


class record_function:
    """Name a range of code in the profile: context manager and decorator.

    A thread that is not profiled ignores the range, as does a profile that starts within it.

    Args:
        name: of the range.
        args: a text beside it. A profile with ``record_shapes=True`` keeps it: its trace shows the text, and
            `key_averages` counts it as an argument that is no tensor.
    Raises: RuntimeError where the block is entered and `name` or `args` is not a str.

    Example:
        >>> from flambeau.profiler import profile, record_function
        >>> with profile() as p, record_function("scaling"):
        ...     _ = flambeau.ones(2) * 2
        >>> [event.name for event in p.events()][0]
        'scaling'
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self.run_callbacks_on_exit = True
        self._handles: list[int] = []

    def __enter__(self) -> record_function:
        if not isinstance(self.name, str):
            raise RuntimeError(f"record_function: expected a str as name, got {type(self.name).__name__}")
        if not isinstance(self.args, str | None):
            raise RuntimeError(
                f"record_function: expected a str or None as args, got {type(self.args).__name__}"
            )
        self._handles.append(_C._profiler_enter(self.name, self.args))
        return self

    def __exit__(self, *exc: object) -> None:
        if self.run_callbacks_on_exit and self._handles:
            _C._profiler_exit(self._handles.pop())

    def __call__(self, function: Any) -> Any:
        return context_decorator(lambda: record_function(self.name, self.args), function)

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        """End the range when a future is done; return a future that is done afterwards."""
        if not self.run_callbacks_on_exit:
            raise RuntimeError("record_function: _call_end_callbacks_on_future can only be called once")
        self.run_callbacks_on_exit = False
        handle = self._handles.pop()

        def end(done: Any) -> Any:
            _C._profiler_exit(handle)
            return done.value()

        return fut.then(end)
