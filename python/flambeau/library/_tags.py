"""Tags of the operators of the specification, derived from their schemas and traits.

The traits are generated from the YAML: whether an operator is pointwise, draws random numbers, or reads
shapes or values from data, and which operator has its values and writes nothing. `core`, `reduction` and
the tags about memory formats are not derived, and no operator has them.
"""

from __future__ import annotations

import functools
from typing import Any

from flambeau import _C


def _values(entry: str) -> str:
    """The operator that has the same values and writes nothing; itself where it is one."""
    facts = _C._operator_facts(entry)
    return (facts[4] if facts else None) or entry


def _is_view(schema: Any) -> bool:
    return any("(" in returned and "!" not in returned for returned in schema.results)


@functools.cache
def _copies_of_views() -> frozenset[str]:
    """The operators that exist to give as new tensors what views give; views of every kind share `clone`."""
    from flambeau.ops import overload_of

    entries = [schema.partition("(")[0] for schema in _C._operator_schemas()]
    views = {entry for entry in entries if overload_of(entry).is_view}
    copies = [_values(view) for view in views if _values(view) not in views]
    return frozenset(copy for copy in copies if copies.count(copy) == 1)


def _of_form(schema: Any, entry: str) -> list[str]:
    """How a schema writes: to `out` arguments, or to its first one."""
    written = [p for p in schema.parameters if p.name in schema.mutates]
    if any(p.keyword_only for p in written):
        return ["out"]
    return ["inplace"] if written and entry.partition(".")[0].endswith("_") else []


def _is_view_in_place(entry: str) -> bool:
    from flambeau.ops import _schemas, overload_of

    base, _, overload = entry.partition(".")
    functional = (base.removesuffix("_"), overload or "default")
    return base.endswith("_") and functional in _schemas() and overload_of(".".join(functional)).is_view


def tags_of(entry: str, schema: Any) -> list[Any]:
    """Return the tags of an operator of the specification, in the order of their names.

    Args:
        entry: its name in the dispatcher, such as "add.Tensor".
        schema: its schema.
    """
    from flambeau import Tag

    values = _values(entry)
    unknown = (False, False, False, False, None)
    is_pointwise, is_random, *_ = _C._operator_facts(values) or unknown
    _, draws, _, is_dynamic, _ = _C._operator_facts(entry) or unknown
    names = ["pt2_compliant_tag", *_of_form(schema, entry)]
    if is_pointwise and not is_random:
        names.append("pointwise")
    if is_random or draws:
        names.append("nondeterministic_seeded")
    if is_dynamic:
        gives_tensor = any("Tensor" in r for r in schema.results)
        names.append("dynamic_output_shape" if gives_tensor else "data_dependent_output")
    if _is_view_in_place(entry):
        names.append("inplace_view")
    if values in _copies_of_views() and not _is_view(schema):
        names.append("view_copy")
    return [getattr(Tag, name) for name in sorted(names)]


def tags_from(tags: Any) -> list[Any]:
    """Return a list of the tags that were given; TypeError if one is not a tag."""
    from flambeau import Tag

    given = list(tags) if isinstance(tags, list | tuple | set | frozenset) else [tags]
    wrong = [tag for tag in given if not isinstance(tag, Tag)]
    if wrong:
        raise TypeError(f"define: expected tags of type Tag, got {type(wrong[0]).__name__}")
    return given
