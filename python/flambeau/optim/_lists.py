"""A list of tensors with the methods of one tensor, each a single call of an operator over lists.

An update rule that is written for a tensor so serves for all parameters at once as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor

# Methods of tensors that rules use. Those ending in _ change the tensors.
_METHODS = (
    "abs add add_ addcdiv addcdiv_ addcmul addcmul_ clamp_max_ clamp_min clamp_min_ copy_ div div_ lerp "
    "lerp_ mul mul_ neg pow reciprocal_ sign sqrt sqrt_ sub sub_"
).split()


class Tensors:
    """Tensors of one dtype that a rule treats alike."""

    __slots__ = ("items",)

    def __init__(self, items: list[Tensor]) -> None:
        self.items = items


def _method(name: str) -> Callable[..., Tensors]:
    def method(self: Tensors, *args: Any, **kwargs: Any) -> Tensors:
        operands = [a.items if isinstance(a, Tensors) else a for a in args]
        extra = (kwargs["alpha"],) if "alpha" in kwargs else (kwargs["value"],) if "value" in kwargs else ()
        if extra and not isinstance(operands[0], list):
            operands, extra = [operands[0] * extra[0]], ()
        named = {"alpha": extra[0]} if "alpha" in kwargs and extra else {}
        out = getattr(flambeau, f"_foreach_{name}")(self.items, *operands, *(() if named else extra), **named)
        return self if name.endswith("_") else Tensors(list(out))

    return method


for _name in _METHODS:
    setattr(Tensors, _name, _method(_name))

Value = Any  # a Tensor or Tensors


def each(function: Callable[..., Tensor], *operands: Any) -> Any:
    """Call `function` on tensors, or on each place of lists; what is not a list stands for every place."""
    lists = [o.items for o in operands if isinstance(o, Tensors)]
    if not lists:
        return function(*operands)
    rows = zip(*(o.items if isinstance(o, Tensors) else [o] * len(lists[0]) for o in operands), strict=True)
    return Tensors([function(*row) for row in rows])
