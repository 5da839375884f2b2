"""Names that faulty entries would have declared: their users are not to blame."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_FUNC = re.compile(r"^[\s-]*func\s*:?\s*['\"]?(\w+)(\.\w+)?", re.MULTILINE)
_INFIX = re.compile(r"^\s*infix\s*:\s*['\"]?([^\s'\"]+)", re.MULTILINE)
_KERNEL = re.compile(r"(?:CPU|CUDA|Meta)\s*:\s*(\w+)")


@dataclass(frozen=True, slots=True)
class Unusable:
    """What is known of entries that could not be read, or whose schema is wrong."""

    operators: frozenset[str] = frozenset()  # with overload
    calls: frozenset[str] = frozenset()  # without
    infix: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Unusable:
        """Find the names in the text of faulty entries."""
        text = "\n".join(texts)
        operators = {base + overload for base, overload in _FUNC.findall(text)}
        calls = {base for base, _ in _FUNC.findall(text)}
        calls |= {f"{name.rstrip('_')}_" for name in calls} | {name.rstrip("_") for name in calls}
        infix, kernels = _INFIX.findall(text), _KERNEL.findall(text)
        return cls(frozenset(operators), frozenset(calls), frozenset(infix), frozenset(kernels))
