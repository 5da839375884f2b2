"""Forward mode: tangents that travel with the values.

>>> import flambeau as fb
>>> import flambeau.autograd.forward_ad as fwAD
>>> with fwAD.dual_level():
...     dual = fwAD.make_dual(fb.tensor(3.0), fb.tensor(1.0))
...     fwAD.unpack_dual(dual * dual).tangent
tensor(6.)
"""

from __future__ import annotations

from typing import NamedTuple

from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd.grad_mode import _FORWARD, _Decorator

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

_current_level = -1


def enter_dual_level() -> int:
    """Enter a level of forward mode; levels do not nest. Returns its number."""
    global _current_level
    level: int = _C._enter_dual_level()
    _current_level = level
    return level


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave the level: all tangents of it are gone.

    Raises: RuntimeError if it was not entered.
    """
    global _current_level
    leaving = _current_level if level is None else level
    if leaving < 0:
        raise RuntimeError("Dual level must be positive: no level was entered")
    if leaving != _current_level:
        raise RuntimeError("exit_dual_level: expected the forward AD level that was entered last")
    _C._exit_dual_level(leaving)
    _current_level = -1


class dual_level(_Decorator):
    """A block in which tensors may have tangents."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level()


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent; None where it has none."""

    primal: Tensor
    tangent: Tensor | None


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return the value with a tangent of the same shape and dtype.

    Raises: RuntimeError outside of a level, or if shapes or dtypes differ.
    """
    _check_level(level, "make_dual")
    return _C._make_dual(tensor, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the value without its tangent, and the tangent.

    Raises: RuntimeError for a level that was not entered.
    """
    place = _current_level if level is None else level
    if place < 0:
        return UnpackedDualTensor(tensor, None)
    if place != _current_level:
        raise RuntimeError(f"unpack_dual: Invalid level given: {place}")
    return UnpackedDualTensor(*_C._unpack_dual(tensor))


def _check_level(level: int | None, what: str) -> None:
    if (_current_level if level is None else level) < 0:
        raise RuntimeError(f"no level exists to hold a dual tensor ({what}): call enter_dual_level() first")


def _is_fwd_grad_enabled() -> bool:
    """Whether tangents are carried along."""
    return bool(_C._get_grad_modes() & _FORWARD)


class _set_fwd_grad_enabled(_Decorator):
    """Carry tangents along, or not, within the block."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self._previous = _C._get_grad_modes()
        _C._set_grad_modes(self._previous & ~_FORWARD | (_FORWARD if self.mode else 0))

    def __exit__(self, *_: object) -> None:
        _C._set_grad_modes(self._previous)

    def clone(self) -> _set_fwd_grad_enabled:
        """Return a manager of the same mode."""
        return type(self)(self.mode)
