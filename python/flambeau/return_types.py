"""The types of results with names, such as ``topk``: tuples whose entries are attributes as well."""

from __future__ import annotations

import functools
import re

from flambeau import _C

_RESULTS = re.compile(r"^(\w+)[^(]*\(.*\) -> \(([^()]*)\)$")
# The section of an operator's documentation that names its results: `values: the elements; indices: ...`.
_RETURNS = re.compile(r"^Returns:\n((?:    .*\n)+)", re.MULTILINE)
_LINE = 98  # columns, with which `help` indents the text


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


def _documentation(name: str, fields: tuple[str, ...]) -> str:
    """Say what each result is, in the words of the operator's documentation."""
    import textwrap

    path, operator = _operator(name)
    documented = _RETURNS.search(operator.__doc__ or "")
    text = " ".join(documented[1].split()) if documented else ""
    lines = [f"Named tuple of the results of `{path}`.", "", "Fields:"]
    for field in fields:
        meaning = re.search(rf"\b{field}: (.*?)(?:; (?=\w+: )|\.$|\. )", text)
        line = f"    {field}: {meaning[1]}." if meaning else f"    {field}"
        lines += textwrap.wrap(line, _LINE, subsequent_indent=" " * 8)
    return "\n".join(lines)


def _operator(name: str) -> tuple[str, object]:
    """The public name of an operator, such as `flambeau.linalg.svd` for `linalg_svd`, and its function."""
    import flambeau

    module, _, base = name.partition("_")
    if module == "linalg" and hasattr(flambeau.linalg, base):
        return f"flambeau.linalg.{base}", getattr(flambeau.linalg, base)
    if hasattr(flambeau, name):
        return f"flambeau.{name}", getattr(flambeau, name)
    return f"flambeau.ops.aten.{name}", getattr(flambeau.ops.aten, name)


def __getattr__(name: str) -> type:
    if name.startswith("__") or name not in _fields():
        raise AttributeError(f"module 'flambeau.return_types' has no attribute '{name}'")
    found: type = _C._return_type(name, *_fields()[name])
    found.__doc__ = _documentation(name, _fields()[name])
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(name for name in _fields() if not name.startswith("_"))
