"""The older PassManager, whose passes return modules."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.fx.passes.infra.pass_manager import this_before_that_pass_constraint

__all__ = [
    "PassManager",
    "inplace_wrapper",
    "log_hook",
    "loop_pass",
    "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]

_Pass = Callable[..., Any]


def inplace_wrapper(fn: _Pass) -> _Pass:
    """Make a function that changes a module in place return the module."""

    @functools.wraps(fn)
    def run(gm: Any) -> Any:
        fn(gm)
        return gm

    return run


def log_hook(fn: _Pass, level: int = 20) -> _Pass:
    """Log what a pass returns."""
    import logging

    @functools.wraps(fn)
    def run(gm: Any) -> Any:
        result = fn(gm)
        logging.getLogger(__name__).log(level, "%s: %s", getattr(fn, "__name__", fn), result)
        return result

    return run


def loop_pass(
    base_pass: _Pass, n_iter: int | None = None, predicate: Callable[..., bool] | None = None
) -> _Pass:
    """Repeat a pass: a number of times, or while a predicate of the module holds."""
    if (n_iter is None) == (predicate is None):
        raise AssertionError("loop_pass: expected exactly one of n_iter and predicate")

    @functools.wraps(base_pass)
    def run(source: Any) -> Any:
        if n_iter is not None:
            for _ in range(n_iter):
                source = base_pass(source)
            return source
        while predicate is not None and predicate(source):
            source = base_pass(source)
        return source

    return run


def these_before_those_pass_constraint(these: _Pass, those: _Pass) -> Callable[[Any, Any], bool]:
    """Return the constraint that pass `these` never runs after pass `those`; wrappers count as the pass."""

    def inner(function: Any) -> Any:
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        return function

    def holds(first: Any, second: Any) -> bool:
        return not (inner(first) is inner(those) and inner(second) is inner(these))

    return holds


class PassManager:
    """Runs passes, which are functions from module to module, in sequence.

    Args:
        passes: the passes.
        constraints: functions of two passes that return whether the first may run before the second.
    """

    def __init__(
        self, passes: list[_Pass] | None = None, constraints: list[Callable[..., bool]] | None = None
    ) -> None:
        self.passes, self.constraints = list(passes or []), list(constraints or [])
        self._validated = False

    @classmethod
    def build_from_passlist(cls, passes: list[_Pass]) -> PassManager:
        """Make a manager from a list of passes."""
        return cls(passes)

    def add_pass(self, _pass: _Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable[..., bool]) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Remove passes by name."""
        self.passes = [p for p in self.passes if getattr(p, "__name__", "") not in _passes]
        self._validated = False

    def replace_pass(self, _target: _Pass, _replacement: _Pass) -> None:
        """Replace a pass by another one."""
        self.passes = [_replacement if p.__name__ == _target.__name__ else p for p in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Check the order of the passes.

        Raises: RuntimeError if a constraint does not hold.
        """
        for constraint in self.constraints:
            for place, first in enumerate(self.passes):
                for second in self.passes[place + 1 :]:
                    if not constraint(first, second):
                        raise RuntimeError(
                            f"PassManager: pass schedule constraint violated by {first}, {second}"
                        )
        self._validated = True

    def __call__(self, source: Any) -> Any:
        """Run the passes and return the module."""
        if not self._validated:
            self.validate()
        for step in self.passes:
            source = step(source)
        return source
