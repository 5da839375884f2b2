"""The exceptions of operators on fake tensors."""

from __future__ import annotations

from typing import Any


class _OfOperator(RuntimeError):
    """An error of one operator.

    Args:
        func: the overload.
    """

    _expected = ""

    def __init__(self, func: Any) -> None:
        super().__init__(f"{func}: expected {self._expected}, got fake tensors, which have no elements")
        self.func = func

    def __reduce__(self) -> Any:
        return RuntimeError, self.args  # overloads cannot be pickled


class DataDependentOutputException(_OfOperator):
    """An operator would return a number that it reads from the elements of a fake tensor.

    Args:
        func: the overload.
    """

    _expected = "tensors whose elements can be read"


class DynamicOutputShapeException(_OfOperator):
    """The sizes of an operator's result depend on the elements of a fake tensor.

    Args:
        func: the overload.
    """

    _expected = "tensors whose elements determine the sizes of the result"


class UnsupportedOperatorException(_OfOperator):
    """An operator has no rule for tensors without memory.

    Args:
        func: the overload.
    """

    _expected = "tensors with memory, or a function registered with library.register_fake"


class FakeTensorDeviceMismatchError(RuntimeError):
    """An operator got tensors on different devices."""


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor has no fake counterpart, because of its layout or class.

    Args:
        reason: a description of the tensor.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
