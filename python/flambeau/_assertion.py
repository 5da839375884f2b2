"""Assertions that programs can leave in a graph."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor


def _assert(condition: Any, message: Any) -> Any:
    """Raise AssertionError with the message unless the condition holds.

    Unlike the statement, the call can be recorded: an object with ``__torch_function__`` takes it over.
    """
    override = getattr(type(condition), "__torch_function__", None)
    if override is not None and type(condition) is not Tensor:
        return condition.__torch_function__(_assert, (type(condition),), (condition, message), {})
    if not condition:
        raise AssertionError(message)
    return None
