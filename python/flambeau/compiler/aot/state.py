"""The state of a thread that operators read and captured graphs change: gradient modes and autocast."""

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
    """What a thread's operators read.

    Args:
        modes: gradient modes, as bits.
        casts: for each device with autocast its name, whether it casts, and its lower precision.
        is_cache_enabled: whether autocast keeps the casts of parameters.
        nesting: how many regions of autocast the thread is in.
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
    """A region in which autocast casts tensors without memory as it casts those of the CPU."""
    before = _C._autocast_meta_as_cpu(True)
    try:
        yield
    finally:
        _C._autocast_meta_as_cpu(before)


def without_autocast(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose operators cast nothing: what was recorded below autocast holds its casts."""

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
    """Return a function that leaves the thread in a state, as the graph that it computes does."""

    def ended(*inputs: Any) -> Any:
        results = run(*inputs)
        state.enter()
        if state.nesting == 0:  # the graph may have left the outermost region
            _C.clear_autocast_cache()
        return results

    return ended
