"""One call of a program with symbolic sizes, and what it did in one lane."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import flambeau
from flambeau.fx.experimental._lanes.values import structure

_DEVICES = ("cpu", "cuda")


@dataclass(slots=True)
class Outcome:
    """What a call did in a lane.

    Args:
        result: the result.
        error: the exception that it raised instead.
        log: the operators that it called, as (overload, args, kwargs, result); empty if none are recorded.
        tensors: the tensors of the lane after the call, by handle.
    """

    result: Any
    error: Exception | None
    log: list[Any]
    tensors: dict[int, Any] = field(default_factory=dict)
    _signature: Any = None

    def signature(self) -> Any:
        """Return what must agree between lanes."""
        if self._signature is None:
            log = tuple((f, structure(args), structure(kwargs)) for f, args, kwargs, _ in self.log)
            error = None if self.error is None else type(self.error)
            self._signature = (error, structure(self.result), log)
        return self._signature


@dataclass(frozen=True, slots=True)
class Settings:
    """The state of the thread that a call depends on.

    Args:
        grad: whether gradients are recorded.
        autocast: the devices and dtypes of autocast.
    """

    grad: bool
    autocast: tuple[tuple[str, Any], ...]


def settings() -> Settings:
    """Return the present state of the thread."""
    active = [d for d in _DEVICES if flambeau.is_autocast_enabled(d)]
    return Settings(flambeau.is_grad_enabled(), tuple((d, flambeau.get_autocast_dtype(d)) for d in active))


@dataclass(eq=False)
class Call:
    """One call.

    Args:
        func: the function.
        args: its arguments by position; `Ref` in the place of tensors with symbolic sizes.
        kwargs: its arguments by name.
        state: the state of the thread.
    """

    func: Callable[..., Any]
    args: Any
    kwargs: Any
    state: Settings
    position: int = 0
    is_recorded: bool = False
    inputs: list[Any] = field(default_factory=list)
    basis: list[Any] = field(default_factory=list)  # expressions of the arguments
    sizes: list[Any] = field(default_factory=list)  # the same without strides
    further: list[Any] = field(default_factory=list)  # expressions of results found so far
    facts: list[tuple[Any, Any]] = field(default_factory=list)  # (extract, expression)
    outputs: list[tuple[int, Any]] = field(default_factory=list)  # (handle, extract)
    outcomes: dict[Any, Outcome] = field(default_factory=dict)  # while the call is running
    signature: Any = None
    constants: list[int] = field(default_factory=list)  # sizes of the arguments that are constant
    unknown: list[Any] = field(default_factory=list)  # symbols of numbers that depend on elements
    unknown_count: int = 0
    nodes: Any = None

    @property
    def name(self) -> str:
        """The name of the function, for messages."""
        return name_of(self.func)

    @property
    def may_write(self) -> bool:
        """Whether the call may change the geometry of an argument."""
        name = self.name
        is_inplace = name.endswith("_") and not name.endswith("__")
        is_slot = name.startswith(("__i", "__set", "__del"))
        return is_inplace or is_slot or "out" in (self.kwargs or {})

    def enter(self, stack: ExitStack) -> None:
        """Restore the state of the thread."""
        stack.enter_context(flambeau.set_grad_enabled(self.state.grad))
        for device, dtype in self.state.autocast:
            stack.enter_context(flambeau.autocast(device, dtype))

    def forget_results(self) -> None:
        """Forget what was found about the results."""
        self.facts, self.outputs, self.further = [], [], []


def name_of(func: Any) -> str:
    """Return the name of a function, of an overload's operator, or of an attribute's getter."""
    packet = getattr(func, "overloadpacket", None)
    if packet is not None:
        return str(packet.__name__)
    if getattr(func, "__name__", "") == "__get__":
        return str(getattr(func.__self__, "__name__", "attribute"))
    return str(getattr(func, "__name__", func))


def part(extract: Callable[[Outcome], Any], key: Any) -> Callable[[Outcome], Any]:
    """Return a function that reads a part of what another function reads."""
    return lambda outcome: extract(outcome)[key]
