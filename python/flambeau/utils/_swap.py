"""Exchange the contents of two tensor objects."""

from __future__ import annotations

import copyreg
import weakref
from typing import Any

from flambeau import _C
from flambeau._C import Tensor


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Give each of two tensor objects the other's memory, history, attributes and class.

    All who refer to one of the objects then see what the other was.
    Raises: RuntimeError if there are weak references to an object, if a graph holds one of the tensors, or if
        their classes have different slots.
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(
                f"swap_tensors: Cannot swap {name}, since it has a weakref, which would follow the "
                "object; delete the weakref first"
            )
    names = set(copyreg._slotnames(type(t1)))  # type: ignore[attr-defined]
    if names != set(copyreg._slotnames(type(t2))):  # type: ignore[attr-defined]
        raise RuntimeError(f"swap_tensors: {type(t1).__name__} and {type(t2).__name__} have different slots")
    _C._swap_tensors(t1, t2)
    first: Any = t1  # assigning a class is beyond the checker
    second: Any = t2
    first.__class__, second.__class__ = type(t2), type(t1)
    for name in names:
        _swap_slot(t1, t2, name)


def _swap_slot(t1: Tensor, t2: Tensor, name: str) -> None:
    values = [(t, hasattr(t, name), getattr(t, name, None)) for t in (t2, t1)]
    for target, (_, present, value) in zip((t1, t2), values, strict=True):
        if present:
            setattr(target, name, value)
        elif hasattr(target, name):
            delattr(target, name)
