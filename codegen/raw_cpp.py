"""Operator calls in raw C++ bodies: `ops::cat::call(...)` names a generated struct."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from codegen import spelling

_CALL = re.compile(r"\bops::(\w+)::(?:call|redispatch)\b")


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
