"""Loops over rows: values for each element and for each row, and reductions of one to the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flambeau.compiler.ir.loops import Array, Value
from flambeau.fx.node import Node


@dataclass(frozen=True)
class Domain:
    """What the rows of a loop are.

    Args:
        sizes: of the leading dimensions, which number the rows.
        columns: the number of elements of a row.
    """

    sizes: tuple[int, ...]
    columns: int

    def form(self, sizes: tuple[int, ...]) -> str:
        """Return whether a tensor of these sizes has an "element" or one "row" value; "" for neither."""
        if sizes == (*self.sizes, self.columns):
            return "element"
        return "row" if sizes in (self.sizes, (*self.sizes, 1)) else ""


@dataclass
class RowValue(Value):
    """A value of a loop over rows.

    `kind` may also be "fold": the reduction `cell` of `operands` along the row, computed in `compute`;
    "pick": the element of the first operand with the second one's number; "place": the first operand at the
    second one's number, 0 elsewhere.

    Args:
        is_row: whether it is one value for each row.
        level: how many reductions must be done before it.
    """

    is_row: bool = False
    level: int = 0


@dataclass(frozen=True)
class RowArray(Array):
    """A tensor of a loop.

    Args:
        node: that gives or is the tensor; of a constant its key.
        strides: in bytes, to the next column, then along the leading dimensions, the last one first.
    """

    node: Node | tuple[str, str]
    strides: tuple[int, ...]


@dataclass
class RowLoop:
    """A loop over rows.

    Args:
        domain: its rows.
        arrays: inputs and outputs.
        values: each after its operands.
        constants: numbers as tensors, by dtype and text.
        slots: 16 bytes for each number and parameter.
        results: the array of each output; for sums over rows the place of the value that is summed.
        sums: the outputs that are sums over all rows.
    """

    domain: Domain
    arrays: list[RowArray] = field(default_factory=list)
    values: list[RowValue] = field(default_factory=list)
    constants: dict[tuple[str, str], Any] = field(default_factory=dict)
    slots: bytes = b""
    results: dict[Node, int] = field(default_factory=dict)
    sums: dict[Node, int] = field(default_factory=dict)


class Unfit(Exception):
    """Raised for a node that a loop over rows cannot compute; None: for the whole group."""

    def __init__(self, node: Node | None) -> None:
        super().__init__(f"row loop: expected operators along rows, got {node}")
        self.node = node


def sizes_of(node: Node) -> tuple[int, ...]:
    """Return the sizes of a node's result."""
    return tuple(node.meta["val"].size())


def argument(node: Node, name: str) -> Any:
    """Return a call's argument by its name in the schema; None if it is not given."""
    target: Any = node.target
    given: Any = node.kwargs.get(name)
    for value, parameter in zip(node.args, target._schema.arguments, strict=False):
        if parameter.name == name:
            given = value
    return given
