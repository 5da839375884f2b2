"""rearrange: transpose, split and merge dimensions by a pattern of names."""

from __future__ import annotations

import math
import re
from typing import Any

import flambeau
from flambeau._C import Tensor

_WORD = re.compile(r"\s*(\.\.\.|\(|\)|[^\W\d]\w*|\d+)")
Axes = list[list[str]]
_REST = ["*"]  # an ellipsis outside brackets, which keeps the other dimensions separate


def _words(side: str) -> list[str]:
    words, place = [], 0
    while place < len(side.rstrip()):
        found = _WORD.match(side, place)
        if found is None:
            raise ValueError(
                "rearrange: expected names, brackets and spaces, got unknown character "
                f"{side[place:].strip()[0]!r} in {side!r}"
            )
        words.append(found[1])
        place = found.end()
    return words


def _axes(side: str) -> Axes:
    """Return a list of names per dimension: several in parentheses, one without, none for "1" and "()"."""
    axes: Axes = []
    is_inside = False
    for word in _words(side):
        if word in "()":
            if is_inside == (word == "("):
                raise ValueError(f"rearrange: expected closed brackets without nesting, got {side!r}")
            is_inside = word == "("
            if is_inside:
                axes.append([])
            continue
        if word.isdigit() and word != "1":
            raise ValueError(f"rearrange: expected a name for each axis of a size other than 1, got {word}")
        if word != "1" and (word.startswith("_") or word.endswith("_")):
            raise ValueError(
                f"rearrange: expected names without an underscore at the beginning or end, got {word!r}"
            )
        names = [] if word == "1" else [word]
        if is_inside:
            axes[-1] += names
        else:
            axes.append(_REST if word == "..." else names)
    if is_inside:
        raise ValueError(f"rearrange: expected closed brackets, got {side!r}")
    return axes


def _checked(pattern: str, lengths: dict[str, Any]) -> tuple[Axes, Axes]:
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange: expected one '->' in the pattern, got {pattern!r}")
    left, right = map(_axes, sides)
    names = [[name.replace("*", "...") for axis in side for name in axis] for side in (left, right)]
    for side in names:
        if twice := {name for name in side if side.count(name) > 1}:
            raise ValueError(
                f"rearrange: expected each name once per side, got duplicate names {sorted(twice)} in "
                f"{pattern!r}"
            )
    if odd := set(names[0]) ^ set(names[1]):
        raise ValueError(
            f"rearrange: expected each name on both sides, got {sorted(odd)} on one side of {pattern!r}"
        )
    if any("..." in axis for axis in left):
        raise ValueError(
            f"rearrange: expected the ellipsis outside of brackets on the left side, got {pattern!r}"
        )
    for name, length in lengths.items():
        if not isinstance(length, int):
            raise TypeError(f"rearrange: expected an int as length of {name}, got {type(length).__name__}")
        if name not in names[0]:
            raise ValueError(
                f"rearrange: expected names of the pattern {pattern!r} as keywords, got {name!r}"
            )
    return left, right


def _sizes(axis: list[str], size: int, lengths: dict[str, int]) -> list[int]:
    """Return the sizes of the names that a dimension is split into; at most one size may be omitted."""
    open_names = [name for name in axis if name not in lengths]
    known = math.prod(lengths[name] for name in axis if name in lengths)
    if len(open_names) > 1 or (not open_names and known != size) or (open_names and size % max(known, 1)):
        raise ValueError(f"rearrange: expected lengths of {axis} whose product is {size}, got {lengths}")
    return [lengths[name] if name in lengths else size // known for name in axis]


def rearrange(
    tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int
) -> Tensor:
    """Transpose, split and merge dimensions by a pattern of names, as einops does.

    Args:
        tensor: a tensor, or tensors of one shape, which are stacked along a first dimension.
        pattern: names of dimensions before and after ``->``; names in parentheses share one dimension,
            ``...`` matches any number of dimensions, 1 and () match a dimension of size 1.
        axes_lengths: sizes of names, for dimensions that are split.
    Raises: ValueError for an invalid pattern, or one that does not fit the shape.

    >>> import flambeau as fb
    >>> rearrange(fb.zeros(2, 3, 4), "a b (c d) -> (a d) b c", d=2).shape
    torch.Size([4, 3, 2])
    """
    whole = tensor if isinstance(tensor, Tensor) else flambeau.stack(tensor)
    left, right = _checked(pattern, axes_lengths)
    hidden = whole.ndim - sum(axis is not _REST for axis in left)
    if hidden < 0 or (hidden and _REST not in left):
        raise ValueError(f"rearrange: expected the number of dimensions of {pattern!r}, got {whole.ndim}")
    rest = [[f"...{i}"] for i in range(hidden)]
    left = [part for axis in left for part in (rest if axis is _REST else [axis])]
    expanded = [part for axis in right for part in (rest if axis is _REST else [_spread(axis, rest)])]
    order, shape = [], []
    for axis, size in zip(left, whole.shape, strict=True):
        order += axis
        if not axis and size != 1:
            raise ValueError(f"rearrange: expected size 1 where {pattern!r} has no name, got {size}")
        shape += _sizes(axis, size, axes_lengths) if axis else []
    split = whole.reshape(shape).permute([order.index(name) for axis in expanded for name in axis])
    sizes = dict(zip(order, shape, strict=True))
    return split.reshape([math.prod(sizes[name] for name in axis) for axis in expanded])


def _spread(axis: list[str], rest: Axes) -> list[str]:
    return [
        name for word in axis for name in ([n for part in rest for n in part] if word == "..." else [word])
    ]
