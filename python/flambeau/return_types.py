"""The types of results with names, such as ``topk``: tuples whose entries are attributes as well."""

from __future__ import annotations

import functools
import re

from flambeau import _C

_RESULTS = re.compile(r"^(\w+)[^(]*\(.*\) -> \(([^()]*)\)$")


@functools.cache
def _fields() -> dict[str, tuple[str, ...]]:
    """The names of the results of each operator that names all of them."""
    found: dict[str, tuple[str, ...]] = {}
    for schema in _C._operator_schemas():
        match = _RESULTS.match(schema)
        if match is None:
            continue
        results = [result.split() for result in match[2].split(",")]
        if len(results) > 1 and all(len(result) == 2 for result in results):
            found.setdefault(match[1], tuple(name for _, name in results))
    return found


def __getattr__(name: str) -> type:
    if name.startswith("__") or name not in _fields():
        raise AttributeError(f"module 'flambeau.return_types' has no attribute '{name}'")
    found: type = _C._return_type(name, *_fields()[name])
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(name for name in _fields() if not name.startswith("_"))
