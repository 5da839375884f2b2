"""Gradient modes and autocast: the thread state that operators read and captured graphs change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau import _C

_INFERENCE = 2  # the bit of `_C._get_grad_modes`


@dataclass(frozen=True)
class ThreadState:
    """The state that a thread's operators read.

    Args:
        modes: gradient modes, as bits.
        casts: for each device with autocast: its name, whether autocast is on, and its lower precision.
        is_cache_enabled: whether autocast caches the casts of parameters.
        nesting: how many autocast regions the thread is in.
    """

    modes: int
    casts: tuple[tuple[str, bool, Any], ...]
    is_cache_enabled: bool
    nesting: int

    @classmethod
    def now(cls) -> ThreadState:
        """Return the state of the calling thread."""
        private = _C._get_privateuse1_backend_name()
        devices = ("cpu", "cuda", *([private] if _C._is_autocast_available(private) else []))
        casts = tuple((d, _C.is_autocast_enabled(d), _C.get_autocast_dtype(d)) for d in devices)
        return cls(_C._get_grad_modes(), casts, _C.is_autocast_cache_enabled(), _nesting())

    @property
    def is_inference(self) -> bool:
        """Whether results are inference tensors."""
        return bool(self.modes & _INFERENCE)

    def enter(self) -> None:
        """Give the calling thread this state."""
        _C._set_grad_modes(self.modes)
        for device, is_enabled, dtype in self.casts:
            _C.set_autocast_enabled(device, is_enabled)
            _C.set_autocast_dtype(device, dtype)
        _C.set_autocast_cache_enabled(self.is_cache_enabled)
        nesting = _nesting()
        for _ in range(nesting, self.nesting):
            _C.autocast_increment_nesting()
        for _ in range(self.nesting, nesting):
            _C.autocast_decrement_nesting()


def _nesting() -> int:
    _C.autocast_increment_nesting()
    return int(_C.autocast_decrement_nesting())


@contextmanager
def kept_state(within: ThreadState | None = None) -> Iterator[None]:
    """Restore the state of the thread at the end of a region.

    Args:
        within: the state in the region; None: the present one.
    """
    state = ThreadState.now()
    try:
        if within is not None:
            within.enter()
        yield
    finally:
        state.enter()


@contextmanager
def meta_as_cpu() -> Iterator[None]:
    """A region in which autocast treats tensors on "meta" as tensors on the CPU."""
    before = _C._autocast_meta_as_cpu(True)
    try:
        yield
    finally:
        _C._autocast_meta_as_cpu(before)


def without_autocast(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs without autocast: a graph recorded below autocast contains the casts."""

    def uncast(*inputs: Any) -> Any:
        if not flambeau.is_autocast_enabled("cpu"):
            return run(*inputs)
        _C.set_autocast_enabled("cpu", False)
        try:
            return run(*inputs)
        finally:
            _C.set_autocast_enabled("cpu", True)

    return uncast


def ending_in(run: Callable[..., Any], state: ThreadState) -> Callable[..., Any]:
    """Return a function that sets the thread state at its end, as its graph does."""

    def ended(*inputs: Any) -> Any:
        results = run(*inputs)
        state.enter()
        if state.nesting == 0:  # the graph may have left the outermost autocast region
            _C.clear_autocast_cache()
        return results

    return ended
