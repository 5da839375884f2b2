"""Annotations of functions as types."""

from __future__ import annotations

import inspect
import typing
from typing import Any, Optional, Union

from flambeau import Tensor as Tensor
from flambeau._loading.lazy import attributes
from flambeau._surface.jit_internal import BroadcastingList1 as BroadcastingList1
from flambeau._surface.jit_internal import BroadcastingList2 as BroadcastingList2
from flambeau._surface.jit_internal import BroadcastingList3 as BroadcastingList3
from flambeau._surface.jit_internal import Final as Final

__all__ = ["ann_to_type", "get_signature", "is_function_or_method", "is_vararg"]
_ = (dict, list, Optional, tuple, Union)


def is_function_or_method(the_callable: Any) -> bool:
    """Whether an object is a Python function or method."""
    return inspect.isfunction(the_callable) or inspect.ismethod(the_callable)


def is_vararg(the_callable: Any) -> bool:
    """Whether a function takes any number of arguments."""
    if not is_function_or_method(the_callable):
        the_callable = the_callable.__call__
    return inspect.getfullargspec(the_callable).varargs is not None


def get_signature(fn: Any, rcb: Any = None, loc: Any = None, is_method: bool = False) -> Any:
    """Return the types of a function's arguments and of its result, or None if it has no annotations."""
    hints = typing.get_type_hints(fn)
    if not hints:
        return None
    names = list(inspect.signature(fn).parameters)[int(is_method) :]
    return [hints.get(name, Tensor) for name in names], hints.get("return", Tensor)


def ann_to_type(ann: Any, loc: Any = None, rcb: Any = None) -> Any:
    """Return the type of an annotation; without an annotation, Tensor."""
    return Tensor if ann is None else ann


def try_ann_to_type(ann: Any, loc: Any = None, rcb: Any = None) -> Any:
    """Return an annotation's type."""
    return ann_to_type(ann)


__getattr__, __dir__ = attributes(__name__)
