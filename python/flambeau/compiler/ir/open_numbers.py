"""Numbers in the arguments of a graph's nodes that differ between the sizes that the graph serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flambeau.fx.node import Node

Number = int | float


class OpenInt(int):
    """An integer that other sizes replace: `name` tells which."""

    name: str


class OpenFloat(float):
    """A floating-point number that other sizes replace: `name` tells which."""

    name: str


def opened(value: Number, name: str) -> Number:
    """Return a number that other sizes replace by the number called `name`."""
    made: Any = OpenInt(value) if isinstance(value, int) else OpenFloat(value)
    made.name = name
    return made


def is_open(value: Any) -> bool:
    """Whether a value is a number that other sizes replace."""
    return isinstance(value, OpenInt | OpenFloat)


def leaves_of(value: Any) -> Iterator[Any]:
    """Yield what the lists, tuples and dicts of an argument hold, in a fixed order."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves_of(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves_of(item)
    else:
        yield value


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Replace the leaves of an argument in the order of `leaves_of`."""
    if isinstance(value, list | tuple):
        items = [mapped(item, change) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return change(value)


def has_open(node: Node) -> bool:
    """Whether an argument of a node is a number that other sizes replace."""
    return any(map(is_open, leaves_of((node.args, node.kwargs))))
