"""The part of `FakeTensorMode` that has a `ShapeEnv`."""

from __future__ import annotations

from typing import Any

from flambeau._subclasses._errors import DataDependentOutputException, DynamicOutputShapeException
from flambeau._subclasses._operators import answer as plain_answer
from flambeau.fx.experimental._lanes import unknown
from flambeau.fx.experimental._lanes.inputs import Inputs
from flambeau.fx.experimental._lanes.program import Program
from flambeau.fx.experimental._lanes.tensor import SymbolicFakeTensor, answered
from flambeau.fx.experimental._lanes.values import SYMBOLIC, leaves
from flambeau.overrides import TorchFunctionMode


class _Calls(TorchFunctionMode):
    """The region in which factories run in every lane.

    Args:
        program: the program of the lanes.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function in every lane."""
        is_attribute = getattr(func, "__name__", "") in ("__get__", "__set__")
        if is_attribute and not any(
            isinstance(a, (SymbolicFakeTensor, *SYMBOLIC)) for a in leaves((args, kwargs))
        ):
            return func(*args, **(kwargs or {}))
        return answered(self.program, func, args, kwargs or {})


class Lanes:
    """Tensors with symbolic sizes of one mode.

    Args:
        mode: the mode.
        env: its `ShapeEnv`.
    """

    def __init__(self, mode: Any, env: Any) -> None:
        self.program = Program(mode, env)
        self._inputs = Inputs(self.program)
        self._regions: list[_Calls] = []

    @property
    def is_running(self) -> bool:
        """Whether a function is running in a lane."""
        return self.program.current is not None

    def enter(self) -> None:
        """Make factories run in every lane."""
        region = _Calls(self.program)
        region.__enter__()
        self._regions.append(region)

    def leave(self) -> None:
        """End the innermost region."""
        self._regions.pop().__exit__(None, None, None)

    def from_tensor(self, tensor: Any, source: Any, context: Any, is_static: bool) -> Any:
        """Return the counterpart of an example."""
        return self._inputs.of(tensor, source, context, is_static)

    def answer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of an operator: in the current lane, or in every lane if none is running."""
        program = self.program
        if program.current is None:
            _refuse_inner(func, args, kwargs)
            return program.call(func, args, kwargs)
        try:
            return plain_answer(program.mode, func, args, kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            return unknown.answer(program, func, args, kwargs, error)


def _refuse_inner(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse tensors with symbolic sizes in a call from C++, which has read the sizes of the example."""
    for leaf in leaves((args, kwargs)):
        if isinstance(leaf, SymbolicFakeTensor):
            leaf._elem  # noqa: B018  (raises)
