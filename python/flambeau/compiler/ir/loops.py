"""Typed loops: the parts of fused groups as values, each with its dtype and operands."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Array:
    """An array of a loop.

    Args:
        dtype: of its elements.
        steps: "unit" (neighbours), "one" (one element for all), "row" (one for each row), or "strided".
    """

    dtype: str
    steps: str


@dataclass
class Value:
    """One value for each element of a loop.

    Args:
        kind: "load", "number", "run" or "convert".
        dtype: of the value.
        operands: places of other values; of "load" the array, of "number" the slot.
        cell: of "run": the name of the formula.
        compute: of "run": the dtype of its operands.
        slot: of "run": where its parameters begin.
        params: of "run": how many there are.
        stores: arrays that the value is written to.
    """

    kind: str
    dtype: str
    operands: list[int]
    cell: str = ""
    compute: str = ""
    slot: int = 0
    params: int = 0
    stores: list[int] = field(default_factory=list)


@dataclass
class Loop:
    """A part of a fused group: its arrays and values, each value after its operands."""

    arrays: list[Array]
    values: list[Value]


def parsed(text: str) -> Loop:
    """Read the text that ``_FusedGroup.texts`` gives for a part (``aten/cpu/fused_text.cpp``)."""
    loop = Loop([], [])
    for line in text.splitlines():
        kind, *words = line.split()
        if kind == "array":
            loop.arrays.append(Array(*words))
        elif kind == "store":
            loop.values[-1].stores.append(int(words[0]))
        elif kind == "run":
            dtype, cell, compute, slot, params, *operands = words
            places = list(map(int, operands))
            loop.values.append(Value(kind, dtype, places, cell, compute, int(slot), int(params)))
        else:
            loop.values.append(Value(kind, words[0], list(map(int, words[1:]))))
    return loop
