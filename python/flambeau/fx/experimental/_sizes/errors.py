"""Exceptions of symbolic sizes."""

from __future__ import annotations

from typing import Any


class ConstraintViolationError(RuntimeError):
    """A size violates a constraint that the program declared."""


class GuardOnDataDependentSymNode(RuntimeError):
    """A program used the value of a number that depends on elements of a tensor.

    Args:
        cond: the condition or number.
        *args: the message.
    """

    def __init__(self, cond: Any, *args: Any) -> None:
        super().__init__(*args)
        self.cond = cond
