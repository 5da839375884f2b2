"""`sparse:` — the functions for an operator's calls with a sparse tensor."""

from __future__ import annotations

from codegen.reading import keys
from codegen.reading.fields import Fields, check_keys
from codegen.source.nodes import Text


def read_sparse(fields: Fields, is_inplace: bool) -> tuple[tuple[str, str], ...]:
    """Return (key of keys.SPARSE, function) pairs: one value is the function of the form that is declared."""
    given = fields.scalar("sparse")
    if given is not None:
        return (("inplace" if is_inplace else "functional", given.value),)
    mapping = fields.map("sparse")
    if mapping is None:
        return ()
    check_keys(mapping, keys.SPARSE)
    values = ((key, mapping.node.get(key)) for key in keys.SPARSE)
    return tuple((key, value.value) for key, value in values if isinstance(value, Text))


def texts(fields: Fields) -> tuple[Text, ...]:
    """Return the names of the functions where they stand."""
    given = fields.scalar("sparse")
    if given is not None:
        return (given,)
    mapping = fields.map("sparse")
    nodes = [] if mapping is None else [value for _, value in mapping.node.items]
    return tuple(node for node in nodes if isinstance(node, Text))
