"""Assertions that programs can leave in a graph, and checks that raise an error of a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor

__all__ = [
    "_assert",
    "_assert_async",
    "_check",
    "_check_index",
    "_check_is_size",
    "_check_not_implemented",
    "_check_tensor_all",
    "_check_tensor_all_with",
    "_check_type",
    "_check_value",
    "_check_with",
]

Message = Callable[[], Any] | None


def _assert(condition: Any, message: Any) -> Any:
    """Raise AssertionError with the message unless the condition holds.

    Unlike the `assert` statement, the call can be recorded: it is dispatched to ``__torch_function__``.
    """
    override = getattr(type(condition), "__torch_function__", None)
    if override is not None and type(condition) is not Tensor:
        return condition.__torch_function__(_assert, (type(condition),), (condition, message), {})
    if not condition:
        raise AssertionError(message)
    return None


def _assert_async(self: Tensor, assert_msg: str = "") -> None:
    """Raise RuntimeError unless the tensor's single element is true."""
    if not self:
        raise RuntimeError(assert_msg or "_assert_async: expected a nonzero value, got zero")


# --- checks: `cond` is a bool, `message` a function that returns the text ---------------------------


def _raise_unless(error_type: type[Exception], cond: bool, message: Message) -> None:
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError(
            f"_check: message must be a callable: expected a function, got {type(message).__name__}"
        )
    raise error_type("a check failed: the condition is False" if message is None else str(message()))


def _check_with(error_type: type[Exception], cond: bool, message: Message) -> None:
    """Raise `error_type` unless `cond` holds; TypeError if it is not a bool."""
    node: Any = getattr(cond, "node", None)
    if hasattr(node, "expect_true"):  # a condition on symbolic sizes
        _raise_unless(error_type, node.expect_true("", 0), message)
        return
    if not isinstance(cond, bool):
        hint = "; _check_tensor_all takes tensors" if isinstance(cond, Tensor) else ""
        raise TypeError(
            f"_check: cond must be a bool: expected True or False, got {type(cond).__name__}{hint}"
        )
    if not issubclass(error_type, Exception) or issubclass(error_type, Warning):
        raise TypeError(f"_check_with: expected error_type to be an exception, got {error_type}")
    _raise_unless(error_type, cond, message)


def _check(cond: bool, message: Message = None) -> None:
    """Raise RuntimeError unless `cond` holds."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: Message = None) -> None:
    """Raise IndexError unless `cond` holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: Message = None) -> None:
    """Raise ValueError unless `cond` holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Message = None) -> None:
    """Raise TypeError unless `cond` holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: Message = None) -> None:
    """Raise NotImplementedError unless `cond` holds."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Message = None, *, max: Any = None) -> None:
    """Raise RuntimeError unless `i` is at least 0, and at most `max`."""
    note = getattr(getattr(i, "node", None), "note_size", None)
    if note is not None:
        note()
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: Message = None) -> None:
    """Raise `error_type` unless all elements hold; TypeError if it is not a tensor of bool."""
    if not isinstance(cond, Tensor):
        raise TypeError(
            f"_check_tensor_all: cond must be a tensor: expected a Tensor, got {type(cond).__name__}"
        )
    if cond.dtype != _C.bool:
        raise TypeError(
            f"_check_tensor_all: cond tensor must have dtype bool: expected a bool tensor, got {cond.dtype}"
        )
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Tensor, message: Message = None) -> None:
    """Raise RuntimeError unless all elements hold."""
    _check_tensor_all_with(RuntimeError, cond, message)
