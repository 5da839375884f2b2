"""Which operators of a family share one generated file: few, so that an edit of one entry compiles little.

The name of an entry decides on its file, whatever entries stand beside it; a family has a power of two
files, so that a new entry seldom moves others.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from codegen.model import Operator, Pointwise, Reduce

_Item = TypeVar("_Item")

# A reduction is five loops per dtype, each unrolled.
_REDUCTION = 8


def loops_in(op: Operator) -> int:
    """How much there is to compile for the loops of an operator, in pointwise loops."""
    if isinstance(op.body, Pointwise):
        return len(op.body.cases)
    return _REDUCTION if isinstance(op.body, Reduce) else 0


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
    operators: Sequence[Operator], limit: int, weight: Callable[[Operator], int] = lambda _: 1
) -> Iterator[tuple[str, tuple[Operator, ...]]]:
    """Divide a family; fused derivatives, which follow the operator that they are of, stay with it."""
    key = ""
    keyed: list[tuple[str, int, Operator]] = []
    for op in operators:
        key = key if op.internal else op.schema.name.base
        if weight(op):
            keyed.append((key, weight(op), op))
    yield from divide(keyed, limit)
