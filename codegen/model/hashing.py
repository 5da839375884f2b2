"""Hashes that are computed once: nodes of trees serve as keys of dictionaries again and again."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T", bound=type)


class Hashed:
    """The base of a frozen class whose hash is remembered; see `hashed_once`."""

    __slots__ = ("_hash",)
    _hash: int


def hashed_once(cls: T) -> T:
    """Remember the hash in each object: else every look-up of a node walks the tree below it."""
    compute: Any = cls.__hash__

    def __hash__(self: Hashed) -> int:
        try:
            return self._hash
        except AttributeError:
            value: int = compute(self)
            object.__setattr__(self, "_hash", value)
            return value

    cls.__hash__ = __hash__  # type: ignore[assignment, method-assign]
    return cls
