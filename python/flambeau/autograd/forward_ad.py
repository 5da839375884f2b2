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
    """Enter the level of forward mode; levels do not nest.

    Returns: the number of the level, for `exit_dual_level`.
    Raises: RuntimeError if a level was entered already.

    Example:
        >>> import flambeau.autograd.forward_ad as fwAD
        >>> level = fwAD.enter_dual_level()
        >>> fwAD.exit_dual_level(level=level)
    """
    global _current_level
    level: int = _C._enter_dual_level()
    _current_level = level
    return level


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave the level of forward mode and delete its tangents.

    Args:
        level: the number that `enter_dual_level` returned. None means the level that was entered last.
    Returns: None.
    Raises: RuntimeError if the level was not entered.

    Example:
        >>> import flambeau.autograd.forward_ad as fwAD
        >>> _ = fwAD.enter_dual_level()
        >>> fwAD.exit_dual_level()
    """
    global _current_level
    leaving = _current_level if level is None else level
    if leaving < 0:
        raise RuntimeError(
            "exit_dual_level: Dual level must be positive: no level was entered; call "
            "enter_dual_level() first"
        )
    if leaving != _current_level:
        raise RuntimeError(f"exit_dual_level: expected forward AD level {_current_level}, got {leaving}")
    _C._exit_dual_level(leaving)
    _current_level = -1


class dual_level(_Decorator):
    """Context manager in which tensors can have tangents for forward mode.

    Example:
        >>> import flambeau.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(flambeau.tensor(3.0), flambeau.tensor(1.0))
        ...     fwAD.unpack_dual(x * x).tangent
        tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level()


class UnpackedDualTensor(NamedTuple):
    """Named tuple of a value and its tangent, which `unpack_dual` returns.

    Args:
        primal: the value.
        tangent: the tangent, or None.

    Example:
        >>> import flambeau.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     value, tangent = fwAD.unpack_dual(flambeau.ones(2))
        >>> value, tangent
        (tensor([1., 1.]), None)
    """

    primal: Tensor
    tangent: Tensor | None


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a view of a tensor with a tangent for forward mode.

    Args:
        tensor: the value, of a floating or complex dtype.
        tangent: the tangent, of the same shape and dtype.
        level: the number of the level. None means the level that was entered last.
    Returns: the dual tensor.
    Raises: RuntimeError outside of a level, or if shapes or dtypes differ.

    Example:
        >>> import flambeau.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(flambeau.tensor(0.0), flambeau.tensor(2.0))
        ...     fwAD.unpack_dual(x.sin()).tangent
        tensor(2.)
    """
    _check_level(level, "make_dual")
    return _C._make_dual(tensor, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Split a dual tensor into its value and its tangent.

    Args:
        tensor: the tensor.
        level: the number of the level. None means the level that was entered last.
    Returns: a pair `primal` and `tangent`; the tangent is None for a tensor without one.
    Raises: RuntimeError for a level that was not entered.

    Example:
        >>> import flambeau.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     fwAD.unpack_dual(flambeau.ones(2)).tangent is None
        True
    """
    place = _current_level if level is None else level
    if place < 0:
        return UnpackedDualTensor(tensor, None)
    if place != _current_level:
        raise RuntimeError(f"unpack_dual: Invalid level given: {place}")
    return UnpackedDualTensor(*_C._unpack_dual(tensor))


def _check_level(level: int | None, what: str) -> None:
    if (_current_level if level is None else level) < 0:
        raise RuntimeError(
            f"make_dual: no level exists to hold a dual tensor ({what}); call enter_dual_level() first"
        )


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
