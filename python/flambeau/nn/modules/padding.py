"""Layers that extend the trailing dimensions."""

from __future__ import annotations

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module

Size = int | tuple[int, ...]

_DOC = """Extend the last {N} dimensions {how}.

    Args:
        padding: one int for every side, or (before, after) for each dimension, the last one first; negative
            numbers cut.{more}
"""
_HOW = {
    "constant": "by a value",
    "reflect": "by mirroring at the edges, which are not repeated",
    "replicate": "by repeating the edges",
    "circular": "as if the input repeated itself",
}


class _Pad(Module):
    dims = 0
    mode = "constant"

    def __init__(self, padding: Size) -> None:
        super().__init__()
        sides = (padding,) * (2 * self.dims) if isinstance(padding, int) else tuple(padding)
        if len(sides) != 2 * self.dims:
            raise ValueError(f"{type(self).__name__}: expected one int or {2 * self.dims}, got {padding}")
        self.padding = sides

    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Size, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


def _doc(dims: int, mode: str, more: str = "") -> str:
    return _DOC.format(N=dims, how=_HOW[mode], more=more)


class ConstantPad1d(_ConstantPad):
    __doc__ = _doc(1, "constant", "\n        value: what to fill with.")
    dims = 1


class ZeroPad1d(_Pad):
    __doc__ = _doc(1, "constant")
    dims = 1


class ReflectionPad1d(_Pad):
    __doc__ = _doc(1, "reflect")
    dims, mode = 1, "reflect"


class ReplicationPad1d(_Pad):
    __doc__ = _doc(1, "replicate")
    dims, mode = 1, "replicate"


class CircularPad1d(_Pad):
    __doc__ = _doc(1, "circular")
    dims, mode = 1, "circular"


class ConstantPad2d(_ConstantPad):
    __doc__ = _doc(2, "constant", "\n        value: what to fill with.")
    dims = 2


class ZeroPad2d(_Pad):
    __doc__ = _doc(2, "constant")
    dims = 2


class ReflectionPad2d(_Pad):
    __doc__ = _doc(2, "reflect")
    dims, mode = 2, "reflect"


class ReplicationPad2d(_Pad):
    __doc__ = _doc(2, "replicate")
    dims, mode = 2, "replicate"


class CircularPad2d(_Pad):
    __doc__ = _doc(2, "circular")
    dims, mode = 2, "circular"


class ConstantPad3d(_ConstantPad):
    __doc__ = _doc(3, "constant", "\n        value: what to fill with.")
    dims = 3


class ZeroPad3d(_Pad):
    __doc__ = _doc(3, "constant")
    dims = 3


class ReflectionPad3d(_Pad):
    __doc__ = _doc(3, "reflect")
    dims, mode = 3, "reflect"


class ReplicationPad3d(_Pad):
    __doc__ = _doc(3, "replicate")
    dims, mode = 3, "replicate"


class CircularPad3d(_Pad):
    __doc__ = _doc(3, "circular")
    dims, mode = 3, "circular"
