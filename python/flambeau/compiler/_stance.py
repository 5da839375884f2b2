"""How compiled functions behave in this process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile")


class set_stance:
    """Sets how compiled functions behave: from now on, in a ``with`` block, or in a decorated function.

    Args:
        stance: "default"; "force_eager" runs programs uncompiled; "eager_on_recompile" runs existing graphs,
            and calls that would need a new one uncompiled; "fail_on_recompile" raises RuntimeError where a
            function would be recorded again; "eager_then_compile" means "default".
        skip_guard_eval_unsafe: accepted for compatibility; guards are always checked.
        force_backend: accepted for compatibility.
    Raises: RuntimeError for any other stance.

    Example:
        >>> twice = flambeau.compiler.compile(lambda x: 2 * x)
        >>> with flambeau.compiler.set_stance("force_eager"):
        ...     twice(flambeau.ones(1))
        tensor([2.])
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
