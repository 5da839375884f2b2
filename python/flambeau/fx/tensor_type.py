"""Types of tensors with known and unknown sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


class _DynType:
    """An unknown size or type."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DynType)

    def __hash__(self) -> int:
        return hash(_DynType)

    def __repr__(self) -> str:
        return "Dyn"


Dyn = _DynType()


class TensorType:
    """A tensor's sizes, with `Dyn` for unknown ones.

    >>> TensorType((1, Dyn))
    TensorType[(1, Dyn)]
    """

    def __init__(self, dim: Sequence[Any]) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and list(self.__args__) == list(other.__args__)

    def __hash__(self) -> int:
        return hash(tuple(self.__args__))

    def __class_getitem__(cls, *args: Any) -> TensorType:
        return TensorType(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args)


def _sizes(first: Any, second: Any) -> Any:
    both = isinstance(first, TensorType) and isinstance(second, TensorType)
    if not both or len(first.__args__) != len(second.__args__):
        return None
    return list(zip(first.__args__, second.__args__, strict=True))


def is_consistent(t1: Any, t2: Any) -> bool:
    """Whether a type can satisfy both: each pair of sizes is equal, or one of them is unknown."""
    if t1 == t2 or t1 == Dyn or t2 == Dyn:
        return True
    pairs = _sizes(t1, t2)
    return pairs is not None and all(is_consistent(a, b) for a, b in pairs)


def is_more_precise(t1: Any, t2: Any) -> bool:
    """Whether the first type implies the second."""
    if t1 == t2 or t2 == Dyn:
        return True
    pairs = _sizes(t1, t2)
    return pairs is not None and all(is_more_precise(a, b) for a, b in pairs)
