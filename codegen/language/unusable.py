"""Names that faulty entries would have declared; uses of them are not reported as mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# `func:` with a name, or what looks like a schema under a misspelt key.
_NAME = r"(\w+)(\.\w+)?"
_FUNC = re.compile(rf"^[\s-]*func\s*:?\s*['\"]?{_NAME}|^[\s-]*\w*[\s:'\"]*\b{_NAME}\([^\n]*->", re.MULTILINE)
_INFIX = re.compile(r"^\s*\w+\s*:?\s*['\"]?([-+*/%@&|^~<>=!]+)['\"]?\s*$", re.MULTILINE)
_KERNEL = re.compile(r"\b(\w+_(?:cpu|cuda))\b")


@dataclass(frozen=True, slots=True)
class Unusable:
    """Entries that could not be read, or whose schema is wrong."""

    operators: frozenset[str] = frozenset()  # with overload
    calls: frozenset[str] = frozenset()  # without
    infix: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Unusable:
        """Find the names in the text of faulty entries."""
        text = "\n".join(texts)
        names = [(a or c, b or d) for a, b, c, d in _FUNC.findall(text)]
        operators = {base + overload for base, overload in names}
        calls = {base for base, _ in names}
        calls |= {f"{name.rstrip('_')}_" for name in calls} | {name.rstrip("_") for name in calls}
        infix, kernels = _INFIX.findall(text), _KERNEL.findall(text)
        return cls(frozenset(operators), frozenset(calls), frozenset(infix), frozenset(kernels))
