"""Layers that extend the trailing dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module

Size = int | tuple[int, ...]

_DOC = """Padding of the last {dims} dimensions{how}.

    Args:
        padding: the number of elements at every side, or the numbers before and after the last dimension,
            then the one before it, and so on. Negative numbers cut.{value}
    Shape: ``({sizes})``{unbatched} to the same with each of the last {dims} sizes longer by its two numbers.
    Raises: ValueError for another count of numbers{more}.
    See also: nn.functional.pad

    Example:
        >>> x = flambeau.tensor([1.0, 2.0, 3.0]).reshape({ones}3)
        >>> flambeau.nn.{name}((1, 2{zeros}){argument})(x).flatten()
        tensor([{result}])
"""
_HOW = {
    "ConstantPad": (" by a value", "9., 1., 2., 3., 9., 9."),
    "ZeroPad": (" by 0", "0., 1., 2., 3., 0., 0."),
    "ReflectionPad": (" by mirroring at the edge elements, which are not repeated", "2., 1., 2., 3., 2., 1."),
    "ReplicationPad": (" by repeating the edge elements", "1., 1., 2., 3., 3., 3."),
    "CircularPad": (
        " by elements of the other end, as if the input repeated itself",
        "3., 1., 2., 3., 1., 2.",
    ),
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
            raise ValueError(f"{type(self).__name__}: expected {expected} input (got {input.dim()}D input)")
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


def _text(name: str, dims: int) -> str:
    how, result = _HOW[name]
    constant = name == "ConstantPad"
    return _DOC.format(
        dims=dims,
        how=how,
        value="\n        value: the added value." if constant else "",
        sizes="*" if name in ("ConstantPad", "ZeroPad") else "batch, channels, *",
        unbatched="" if name in ("ConstantPad", "ZeroPad") else " or ``(channels, *)``",
        more=", or an input of another number of dimensions" if name == "CircularPad" else "",
        ones="1, " * (dims + 1),
        name=f"{name}{dims}d",
        zeros=", 0, 0" * (dims - 1),
        argument=", 9.0" if constant else "",
        result=result,
    )


def _layers(name: str, base: Any, mode: str) -> Iterator[Any]:
    """Make the layers for 1, 2 and 3 dimensions."""
    for dims in (1, 2, 3):
        facts = {"dims": dims, "mode": mode, "__doc__": _text(name, dims)}
        yield type(f"{name}{dims}d", (base,), {**facts, "__module__": __name__})


ConstantPad1d, ConstantPad2d, ConstantPad3d = _layers("ConstantPad", _ConstantPad, "constant")
ZeroPad1d, ZeroPad2d, ZeroPad3d = _layers("ZeroPad", _Pad, "constant")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _layers("ReflectionPad", _Pad, "reflect")
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _layers("ReplicationPad", _Pad, "replicate")
CircularPad1d, CircularPad2d, CircularPad3d = _layers("CircularPad", _CircularPad, "circular")

__getattr__, __dir__ = attributes(__name__)
