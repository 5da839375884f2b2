"""Checks of arguments for functions that are written in Python: operators check theirs by themselves."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor


def _stands_for_tensor(value: Any) -> bool:
    """Whether a value is a Tensor or overrides functions of tensors."""
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def require_tensors(function: str, **given: Any) -> None:
    """Raise TypeError unless each argument is a Tensor; the message names the argument.

    >>> require_tensors("tensordot", other=None)
    Traceback (most recent call last):
    TypeError: tensordot(): argument 'other' must be Tensor, not NoneType
    """
    for name, value in given.items():
        if not _stands_for_tensor(value):
            raise TypeError(f"{function}(): argument '{name}' must be Tensor, not {type(value).__name__}")


def require_type(function: str, kind: type, **given: Any) -> None:
    """Raise TypeError unless each argument is of this type or None; a bool is not an int.

    >>> require_type("stft", bool, onesided=1)
    Traceback (most recent call last):
    TypeError: stft(): argument 'onesided' must be bool, not int
    """
    for name, value in given.items():
        if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            shown = type(value).__name__
            raise TypeError(f"{function}(): argument '{name}' must be {kind.__name__}, not {shown}")


def require_all_tensors(function: str, given: Any) -> None:
    """Raise TypeError unless each element is a Tensor; the message gives the index of the first other one."""
    for i, value in enumerate(given):
        if not _stands_for_tensor(value):
            raise TypeError(f"{function}(): expected Tensor as element {i}, got {type(value).__name__}")
