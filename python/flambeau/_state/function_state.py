"""Switches of __torch_function__: what is disabled in this thread."""

from __future__ import annotations

import enum

from flambeau import _C


class TorchFunctionState(enum.IntEnum):
    """Which overrides are enabled in this thread."""

    ENABLED = 0
    SUBCLASSES_DISABLED = 1
    ALL_DISABLED = 2


class _StateGuard:
    """Within the block the thread has another state; nested and repeated entries are restored in turn."""

    _state: TorchFunctionState

    def __init__(self) -> None:
        self._outer: list[int] = []

    def __enter__(self) -> None:
        self._outer.append(_C._get_torch_function_state())
        _C._set_torch_function_state(self._entered(self._outer[-1]))

    def __exit__(self, *_: object) -> None:
        _C._set_torch_function_state(self._outer.pop())

    def _entered(self, outer: int) -> int:
        return max(outer, self._state)


class DisableTorchFunctionSubclass(_StateGuard):
    """Within the block, classes of arguments do not take over calls; modes still see them."""

    _state = TorchFunctionState.SUBCLASSES_DISABLED


class DisableTorchFunction(_StateGuard):
    """Within the block, neither classes nor modes take over calls."""

    _state = TorchFunctionState.ALL_DISABLED


class EnableTorchFunction(_StateGuard):
    """Enable overrides by classes and modes within the block, even if they are disabled outside."""

    _state = TorchFunctionState.ENABLED

    def _entered(self, outer: int) -> int:
        return self._state


_C.DisableTorchFunctionSubclass = DisableTorchFunctionSubclass
_C.DisableTorchFunction = DisableTorchFunction
_C._EnableTorchFunction = EnableTorchFunction
_C._TorchFunctionState = TorchFunctionState
