"""How compiled functions behave in this process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile")


class set_stance:
    """Set how compiled functions behave; also a context manager and decorator.

    Args:
        stance: "default"; "force_eager" runs programs as they are; "eager_on_recompile" runs recorded graphs,
            and everything else as it is; "fail_on_recompile" raises RuntimeError where a function would be
            recorded again; "eager_then_compile" is accepted and means "default".
        skip_guard_eval_unsafe: accepted; guards are always checked.
        force_backend: accepted.
    Raises: RuntimeError for another stance.

    Example:
        >>> with set_stance("force_eager"):
        ...     pass
    """

    current = "default"

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"set_stance: expected one of {list(_STANCES)}, got {stance!r}")
        self.stance, self._before = stance, set_stance.current
        set_stance.current = stance

    def __enter__(self) -> None:
        set_stance.current = self.stance

    def __exit__(self, *exception: object) -> None:
        set_stance.current = self._before

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        set_stance.current = self._before

        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return run
