"""Checks of arguments for functions that are written in Python: operators check theirs by themselves."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor


def _stands_for_tensor(value: Any) -> bool:
    """Tensors, and objects that answer calls in their place."""
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def require_tensors(function: str, **given: Any) -> None:
    """TypeError unless each argument is a Tensor; they are named in the message.

    >>> require_tensors("tensordot", other=None)
    Traceback (most recent call last):
    TypeError: tensordot(): argument 'other' must be Tensor, not NoneType
    """
    for name, value in given.items():
        if not _stands_for_tensor(value):
            raise TypeError(f"{function}(): argument '{name}' must be Tensor, not {type(value).__name__}")


def require_all_tensors(function: str, given: Any) -> None:
    """TypeError unless each element is a Tensor; the first other one is named by its place."""
    for i, value in enumerate(given):
        if not _stands_for_tensor(value):
            raise TypeError(f"{function}(): expected Tensor as element {i}, got {type(value).__name__}")
