"""Names of `flambeau._C._profiler`: ranges of a profile without a module of their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from flambeau import _C


class RecordFunctionFast:
    """Name a range of code in the profile, with values beside it; the object can be entered again.

    A thread that is not profiled ignores the range. Shapes of tensors among the values are part of the event
    if the profile records shapes.

    Args:
        name: of the range.
        input_values: what the range is about, in the order of the event's inputs.
        keyword_values: more of it by name; accepted and not shown.
    Raises: RuntimeError for arguments of other types, for a range that is entered twice, and for one that
        ends without a begin.

    Example:
        >>> from flambeau.profiler import profile
        >>> scaling = flambeau._C._profiler._RecordFunctionFast("scaling", [flambeau.ones(2)])
        >>> with profile(record_shapes=True) as p, scaling:
        ...     _ = flambeau.ones(2) * 2
        >>> [(event.name, event.input_shapes) for event in p.events()][0]
        ('scaling', [[2]])
    """

    __module__ = "flambeau._C._profiler"

    def __init__(
        self,
        name: str,
        input_values: list[Any] | tuple[Any, ...] | None = None,
        keyword_values: dict[str, Any] | None = None,
    ) -> None:
        for value, kind, what in (
            (name, str, "a str as name"),
            (input_values, list | tuple | None, "a list or tuple as input_values"),
            (keyword_values, dict | None, "a dict as keyword_values"),
        ):
            if not isinstance(value, kind):
                raise RuntimeError(f"record_function: expected {what}, got {type(value).__name__}")
        self._name, self._values = name, None if input_values is None else tuple(input_values)
        self._handle: int | None = None

    def __enter__(self) -> None:
        if self._handle is not None:
            raise RuntimeError(
                f"record_function: expected a range that has ended, got '{self._name}', which is entered"
            )
        if self._values is None:
            self._handle = _C._profiler_enter(self._name, None)
        else:
            self._handle = _C._profiler_enter_operator(self._name, self._values)

    def __exit__(self, *exception: object) -> None:
        if self._handle is None:
            raise RuntimeError(f"record_function: expected '{self._name}' to be entered, got one that is not")
        if self._values is None:
            _C._profiler_exit(self._handle)
        else:
            _C._profiler_exit_operator(self._handle, ())
        self._handle = None


_profiler = SimpleNamespace(_RecordFunctionFast=RecordFunctionFast, RecordFunctionFast=RecordFunctionFast)
