"""Layers that extend the trailing dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau import Tensor
from flambeau._loading.lazy import attributes
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


class _CircularPad(_Pad):
    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
        allowed = (self.dims + 1, self.dims + 2)
        if input.dim() not in allowed:
            expected = " or ".join(f"{n}D" for n in allowed)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")
        return super().forward(input)


class _ConstantPad(_Pad):
    def __init__(self, padding: Size, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


def _layers(name: str, base: Any, mode: str, more: str = "") -> Iterator[Any]:
    """Make the layers for 1, 2 and 3 dimensions."""
    for dims in (1, 2, 3):
        facts = {"dims": dims, "mode": mode, "__doc__": _DOC.format(N=dims, how=_HOW[mode], more=more)}
        yield type(f"{name}{dims}d", (base,), {**facts, "__module__": __name__})


_VALUE = "\n        value: what to fill with."
ConstantPad1d, ConstantPad2d, ConstantPad3d = _layers("ConstantPad", _ConstantPad, "constant", _VALUE)
ZeroPad1d, ZeroPad2d, ZeroPad3d = _layers("ZeroPad", _Pad, "constant")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _layers("ReflectionPad", _Pad, "reflect")
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _layers("ReplicationPad", _Pad, "replicate")
CircularPad1d, CircularPad2d, CircularPad3d = _layers("CircularPad", _CircularPad, "circular")

__getattr__, __dir__ = attributes(__name__)
