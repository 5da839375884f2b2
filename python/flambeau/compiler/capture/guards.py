"""Conditions under which a recorded segment may run again, as data."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau.compiler.capture.origins import Origin


class Check(enum.Enum):
    """The kinds of guards."""

    TYPE = "type"
    IDENTITY = "identity"
    EQUALS = "value"
    LENGTH = "length"
    KEYS = "keys"
    TENSOR = "tensor"
    SAME = "same object"
    ABSENT = "no attribute"
    DISTINCT = "distinct tensors"


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on the value at an origin. `expected`: index of a constant, a number or an origin."""

    origin: Origin
    check: Check
    expected: Any

    def __str__(self) -> str:
        return f"  {self.check.value} of {self.origin.name()}"


def condition(guard: Guard, value: str, other: str = "") -> str:
    """The Python expression of a guard; `value` and `other` are the expressions of its origins."""
    place = guard.expected
    match guard.check:
        case Check.TYPE:
            return f"type({value}) is K[{place}]"
        case Check.IDENTITY:
            return f"{value} is K[{place}]"
        case Check.EQUALS:
            return f"same_value({value}, K[{place}])"
        case Check.LENGTH:
            return f"len({value}) == {place}"
        case Check.KEYS:
            return f"tuple({value}) == K[{place}]"
        case Check.TENSOR:
            return f"K[{place}]({value})"
        case Check.SAME:
            return f"{value} is {other}"
        case Check.ABSENT:
            return f"{place!r} not in {value}.__dict__"
        case Check.DISTINCT:
            return f"{value} is not {other}"


def same_value(value: Any, expected: Any) -> bool:
    """Whether two constants have equal types and values; NaN equals NaN, and -0.0 differs from 0.0.

    >>> same_value(1, True), same_value(float("nan"), float("nan")), same_value(0.0, -0.0)
    (False, True, False)
    """
    if type(value) is not type(expected):
        return False
    if type(expected) is float:
        if expected != expected:
            return value != value
        return value == expected and math.copysign(1, value) == math.copysign(1, expected)
    if isinstance(expected, tuple | list):
        return len(value) == len(expected) and all(map(same_value, value, expected))
    return bool(value == expected)


def nth(values: Any, index: int) -> Any:
    """Return the element at an index in the iteration order."""
    for i, value in enumerate(values):
        if i == index:
            return value
    raise IndexError(index)


def tensor_check(tensor: flambeau.Tensor, any_size: bool = False) -> Callable[[Any], bool]:
    """Return a function that tells whether a tensor has this one's present type, metadata and autograd state.

    The function has the attribute ``description`` and holds no tensor. With ``any_size`` it compares the
    number of dimensions instead of sizes and strides.
    """
    is_own = type(tensor) in (flambeau.Tensor, flambeau.nn.Parameter)
    check: Any = flambeau._C._TensorGuard(tensor, any_size) if is_own else _check_by_attributes(tensor)
    check.description = describe_tensor(tensor)
    own: Callable[[Any], bool] = check
    return own


def _check_by_attributes(tensor: flambeau.Tensor) -> Callable[[Any], bool]:
    """Do the same for a tensor of a program's class, which may override attributes by properties."""
    kind, dtype, device, layout = type(tensor), tensor.dtype, tensor.device, tensor.layout
    shape = tensor.shape
    strides = tensor.stride() if layout is flambeau.strided else None
    requires_grad, is_leaf = tensor.requires_grad, tensor.is_leaf
    is_inference, offset_state = tensor.is_inference(), (tensor.is_conj(), tensor.is_neg())

    def check(value: Any) -> bool:
        return (
            type(value) is kind
            and value.dtype is dtype
            and value.shape == shape
            and value.requires_grad == requires_grad
            and (strides is None or value.stride() == strides)
            and value.device == device
            and value.layout is layout
            and value.is_leaf == is_leaf
            and value.is_inference() == is_inference
            and (value.is_conj(), value.is_neg()) == offset_state
        )

    return check


def describe_tensor(tensor: flambeau.Tensor) -> str:
    """The properties that `tensor_check` compares, for messages."""
    strides = tensor.stride() if tensor.layout is flambeau.strided else None
    return (
        f"{type(tensor).__name__} dtype={tensor.dtype} size={list(tensor.shape)} stride={strides} "
        f"device={tensor.device} requires_grad={tensor.requires_grad}"
    )


def thread_check() -> Callable[[], bool]:
    """Return a function that tells whether the thread's modes, autocast and defaults are as they are now."""
    check: Callable[[], bool] = flambeau._C._ThreadGuard()
    return check
