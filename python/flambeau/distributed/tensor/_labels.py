"""From an operator's rule to labels: which dimensions of its arguments and results belong together.

A tensor has one label per dimension; None stands for a dimension that cannot be divided. If all
arguments with a label are divided along it, results with it are divided, and results without it are partial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Labels = tuple[Any, ...]


@dataclass
class Labelled:
    """The labels of one call."""

    inputs: list[Labels]
    outputs: list[Labels]
    joined: str = ""  # what joins the results of parts of a label that no result has; "": nothing does
    added: frozenset[int] = frozenset()  # inputs that are terms of a sum
    linear: bool = False
    even: frozenset[Any] = field(default_factory=frozenset)  # labels whose parts must be equal


def labelled(
    rule: tuple[str, ...], shapes: Sequence[Any], outs: Sequence[Any], values: dict[str, Any], view: Any
) -> Labelled | None:
    """Return the labels of a call.

    Args:
        rule: a row of the table.
        shapes: the shapes of its tensors.
        outs: the shapes of its results.
        values: its arguments by name.
        view: for a view, a function that returns the sizes, and strides in bytes, of its contiguous argument
            and of the results.
    """
    match rule:
        case ("pointwise" | "linear" as kind,):
            return _pointwise(shapes, outs, kind == "linear")
        case ("reduce", dim, keepdim, joined):
            return _reduced(shapes, values.get(dim), bool(values.get(keepdim)), joined, outs)
        case ("but", name, joined):
            return _all_but(shapes, outs, values[name], joined)
        case ("labels", text):
            return _words(text, shapes, outs)
        case ("view",):
            return _viewed(view)
    return None


def _pointwise(shapes: Sequence[Any], outs: Sequence[Any], linear: bool) -> Labelled:
    whole = outs[0]
    inputs = [_aligned(shape or (), whole) for shape in shapes]
    only_tensors = all(shape is not None for shape in shapes)  # a number would be added in each process
    return Labelled(inputs, [_aligned(out, whole) for out in outs], linear=linear and only_tensors)


def _aligned(shape: Any, whole: Any) -> Labels:
    """Labels are the places of the whole's dimensions, from the right."""
    first = len(whole) - len(shape)
    return tuple(first + i if n == whole[first + i] else None for i, n in enumerate(shape))


def _dims(given: Any, ndim: int) -> set[int]:
    dims = [given] if isinstance(given, int) else list(given or range(ndim))
    return {dim % max(ndim, 1) for dim in dims}


def _reduced(
    shapes: Sequence[Any], dim: Any, keepdim: bool, joined: str, outs: Sequence[Any]
) -> Labelled | None:
    shape = shapes[0]
    if any(len(other) > len(shape) for other in shapes):
        return None
    gone = _dims(dim, len(shape))
    kept = tuple(None if i in gone else i for i in range(len(shape)) if keepdim or i not in gone)
    even = frozenset() if joined in ("", "sum") else frozenset(gone)
    # Without a dimension to put it in, one that is kept with size 1 is no label.
    inputs = [tuple(range(len(shape))), *(_aligned(other, shape) for other in shapes[1:])]
    return Labelled(inputs, [kept] * len(outs), joined, even=even, linear=False)


def _all_but(shapes: Sequence[Any], outs: Sequence[Any], dim: Any, joined: str) -> Labelled:
    """Sizes 1 broadcast; a dimension with other sizes that differ is not divided."""
    whole = shapes[0]
    excluded = _dims(dim, len(whole))
    every = [shape for shape in (*shapes, *outs) if shape is not None]
    excluded |= {i for i, n in enumerate(whole) if any(_at(s, i, whole) not in (1, n) for s in every)}

    def labels(shape: Any) -> Labels:
        found = _aligned(shape, whole) if shape is not None and len(shape) <= len(whole) else ()
        return tuple(None if label in excluded else label for label in found)

    return Labelled([labels(s) for s in shapes], [labels(s) for s in outs], joined)


def _at(shape: Any, i: int, whole: Any) -> int:
    """Return the size that broadcasts to dimension `i` of `whole`."""
    place = i - len(whole) + len(shape)
    return int(shape[place]) if place >= 0 else 1


def _words(text: str, shapes: Sequence[Any], outs: Sequence[Any]) -> Labelled | None:
    left, right = text.split("->")
    words = [[word.strip() for word in side.split(",")] for side in (left, right)]
    inputs = [_spelled(word, shape) for word, shape in zip(words[0], shapes, strict=True)]
    outputs = [_spelled(word, shape) for word, shape in zip(words[1], outs, strict=True)]
    if None in inputs or None in outputs:
        return None
    added = frozenset(i for i, word in enumerate(words[0]) if word.startswith("+"))
    return Labelled(inputs, outputs, "sum", added)


def _spelled(word: str, shape: Any) -> Any:
    """Letters from the right; `...` stands for what is left, labelled by the distance from its end.

    None for a tensor of more dimensions than letters.
    """
    if shape is None:
        return ()
    before, dots, after = word.lstrip("+").partition("...")
    rest = len(shape) - len(before) - len(after)
    if rest > 0 and not dots:
        return None
    if not dots:
        letters: list[Any] = list(before)[max(-rest, 0) :]
    else:
        letters = [*before, *(f".{i}" for i in range(rest, 0, -1)), *after]
    return tuple(None if a == "_" or n == 1 else a for a, n in zip(letters, shape, strict=True))


def _viewed(view: Any) -> Labelled | None:
    """Dimensions of views are those whose elements lie at the same places in memory."""
    (shape, strides), *results = view()
    outputs, even = [], set()
    for sizes, steps in results:
        if (sizes, steps) == (shape, strides):
            outputs.append(tuple(range(len(shape))))  # dimensions of size 1 as well
            continue
        labels: list[Any] = [None] * len(sizes)
        for i, (n, stride) in enumerate(zip(shape, strides, strict=True)):
            for j, (m, step) in enumerate(zip(sizes, steps, strict=True)):
                if n == 1 or m == 1 or step == 0 or m * step != n * stride or labels[j] is not None:
                    continue
                if step % stride == 0 or stride % step == 0:
                    labels[j] = i
                    if step != stride:
                        even.add((i, max(step // stride, 1)))
                break
        outputs.append(tuple(labels))
    return Labelled([tuple(range(len(shape)))], outputs, linear=True, even=frozenset(even))
