"""PassManager: runs passes in an order that respects constraints, until nothing changes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.fx.graph_module import GraphModule
from flambeau.fx.passes.infra.pass_base import PassResult
from flambeau.nn import Module

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]


def pass_result_wrapper(fn: Callable[..., Any] | None) -> Any:
    """Turn a function that changes a module, or returns a new one, into a pass."""
    if fn is None:
        return None

    @functools.wraps(fn)
    def run(gm: GraphModule) -> PassResult | None:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        return result if isinstance(result, PassResult) else PassResult(result, True)

    if not hasattr(fn, "__name__"):
        run.__name__ = type(fn).__name__
    return run


def this_before_that_pass_constraint(
    this: Callable[..., Any], that: Callable[..., Any]
) -> Callable[[Any, Any], bool]:
    """Return the constraint that `this` never runs after `that`."""

    def holds(first: Any, second: Any) -> bool:
        return not (first is that and second is this)

    return holds


class PassManager:
    """Runs passes over a module.

    Args:
        passes: functions of a module that return a PassResult.
        constraints: functions of two passes that return whether the first may run before the second.
        steps: the maximum number of times that all passes run.
        run_checks_after_each_pass: call `check` after each pass.
        suppress_check_failures: skip the check of the constraints.
    """

    def __init__(
        self,
        passes: list[Callable[..., Any]] | None = None,
        constraints: list[Callable[[Any, Any], bool]] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes, self.constraints = list(passes or []), list(constraints or [])
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass: Callable[..., Any]) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable[[Any, Any], bool]) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def add_checks(self, check: Callable[..., Any]) -> None:
        """Set the function that checks the module.

        Raises: TypeError if the function does not take exactly one argument.
        """
        import inspect

        count = len(inspect.signature(check).parameters)
        if count != 1:
            raise TypeError(f"PassManager: expected a check of one parameter, the module, got {count}")
        setattr(self, "check", check)  # noqa: B010  (a method by default)

    def check(self, module: Module) -> None:
        """Check the module after a pass; does nothing by default."""

    def validate_constraints(self) -> None:
        """Check the order of the passes.

        Raises: RuntimeError if a constraint does not hold.
        """
        for number, constraint in enumerate(self.constraints):
            for place, first in enumerate(self.passes):
                for second in self.passes[place + 1 :]:
                    if not constraint(first, second):
                        raise RuntimeError(
                            f"PassManager: pass schedule constraint violated: constraint {number} forbids "
                            f"{first.__name__} before {second.__name__}"
                        )
        self._validated = True

    def solve_constraints(self) -> None:
        """Sort the passes so that all constraints hold.

        Raises: RuntimeError if no such order exists.
        """
        waiting, order = list(self.passes), []
        while waiting:
            for candidate in waiting:
                others = [other for other in waiting if other is not candidate]
                if all(holds(candidate, other) for holds in self.constraints for other in others):
                    order.append(candidate)
                    waiting.remove(candidate)
                    break
            else:
                raise RuntimeError("PassManager: circular dependency between constraints; remove one of them")
        self.passes = order
        self._validated = True

    def __call__(self, module: Module) -> PassResult:
        """Run the passes, and return the module and whether it changed."""
        if not self._validated:
            self.solve_constraints()
        overall = False
        for _ in range(self.steps):
            modified = False
            for step in self.passes:
                result = step(module)
                if not isinstance(result, PassResult):
                    raise TypeError(
                        f"PassManager: expected a PassResult from {getattr(step, '__name__', step)}, got "
                        f"{type(result).__name__}: the result must be a PassResult; use pass_result_wrapper"
                    )
                module = result.graph_module
                modified = modified or result.modified
                if isinstance(module, GraphModule):
                    module.recompile()
                if self.run_checks_after_each_pass:
                    self.check(module)
            overall = overall or modified
            if not modified:
                break
        return PassResult(module, overall)  # type: ignore[arg-type]
