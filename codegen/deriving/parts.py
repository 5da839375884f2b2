"""Which operators of a family share one generated file: few, so that an edit of one entry compiles little.

The name of an entry decides on its file, whatever entries stand beside it; a family has a power of two
files, so that a new entry seldom moves others.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from codegen.model import SCALAR_FUNCTION, Model, Operator, Pointwise, Reduce

_Item = TypeVar("_Item")

# Headers of a family that declare its operators: more would take longer to include than they save.
_HEADERS = 32
# A reduction is five loops per dtype, each unrolled.
_REDUCTION = 8


def loops_in(op: Operator) -> int:
    """How much there is to compile for the loops of an operator, in pointwise loops."""
    if isinstance(op.body, Pointwise):
        return len(op.body.cases)
    return _REDUCTION if isinstance(op.body, Reduce) else 0


def in_file_order(operators: Iterable[Operator]) -> tuple[Operator, ...]:
    """Return operators in YAML order, and last those of single scalar functions, by name.

    In the model these follow the first operator that calls them, which a new entry may become.
    """
    return tuple(sorted(operators, key=lambda op: op.name if op.name.startswith(SCALAR_FUNCTION) else ""))


def header_of(model: Model, op: Operator) -> str:
    """Return the header that declares an operator: <family>_ops_<n>, or <family>_ops in an extension.

    Their number does not depend on the family, so a new entry never moves others.
    """
    if model.library:
        return f"{op.family}_ops"
    return f"{op.family}_ops_{zlib.crc32(model.origin(op).encode()) % _HEADERS}"


def divide(items: Iterable[tuple[str, int, _Item]], limit: int) -> Iterator[tuple[str, tuple[_Item, ...]]]:
    """Yield what is added to a family's name, and the items of that file; items are (key, weight, item)."""
    known = list(items)
    total = sum(weight for _, weight, _ in known)
    count = 1
    while count * limit < total:
        count *= 2
    files: list[list[_Item]] = [[] for _ in range(count)]
    for key, _, item in known:
        files[zlib.crc32(key.encode()) % count].append(item)
    for number, file in enumerate(files):
        if file:
            yield (f"_{number}" if count > 1 else ""), tuple(file)


def parts(
    model: Model, operators: Iterable[Operator], limit: int, weight: Callable[[Operator], int] = lambda _: 1
) -> Iterator[tuple[str, tuple[Operator, ...]]]:
    """Divide a family; fused derivatives stay with the operator that they are of."""
    keyed = ((model.origin(op), weight(op), op) for op in in_file_order(operators) if weight(op))
    yield from divide(keyed, limit)
