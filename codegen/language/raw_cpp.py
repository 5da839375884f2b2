"""Operator calls in raw C++ bodies: `ops::cat::call(...)` names a generated struct."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from codegen.language import spelling

_CALL = re.compile(r"\bops::(\w+)::(?:call|redispatch)\b")
_RETURNED = re.compile(r"\breturn ops::(\w+)::call\(")
_LAMBDA = re.compile(r"\[[&=\w, ]*\] *(?:\([^{};]*\))?[^{};()]*\{")
_CLOSES = {"(": ")", "{": "}"}


def structs(cpp: str) -> Iterator[tuple[int, str]]:
    """Yield offset and name of each operator that a C++ text calls."""
    for match in _CALL.finditer(cpp):
        yield match.start(1), match.group(1)


@cache
def forms_by_struct(forms: tuple[str, ...]) -> dict[str, str]:
    """Return struct name -> form name."""
    return {spelling.struct_name(form): form for form in forms}


def forms_called(cpp: str, forms: Iterable[str]) -> set[str]:
    """Return the forms that a C++ text calls; a name that is no struct stands for itself."""
    table = forms_by_struct(tuple(forms))
    return {table.get(name, name) for _, name in structs(cpp)}


def returned(cpp: str) -> Iterator[tuple[int, str]]:
    """Yield offset and name of each operator whose result a C++ text returns as it is."""
    inner = [range(m.start(), _closing(cpp, m.end() - 1)) for m in _LAMBDA.finditer(cpp)]
    for match in _RETURNED.finditer(cpp):
        end = _closing(cpp, match.end() - 1)
        if cpp[end + 1 : end + 2] == ";" and not any(match.start() in within for within in inner):
            yield match.start(1), match.group(1)


def _closing(cpp: str, opening: int) -> int:
    """Return where the bracket at `opening` closes; brackets in strings come in pairs."""
    first, depth = cpp[opening], 0
    for at in range(opening, len(cpp)):
        depth += (cpp[at] == first) - (cpp[at] == _CLOSES[first])
        if depth == 0:
            return at
    return len(cpp)
