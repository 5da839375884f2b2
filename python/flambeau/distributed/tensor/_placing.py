"""Which placements the arguments of a call get: of those that its labels allow, the ones that move least."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.distributed.tensor._labels import Labelled
from flambeau.distributed.tensor._placements import Partial, Placement, Replicate, Shard, _StridedShard
from flambeau.distributed.tensor._spec import DTensorSpec


@dataclass(frozen=True)
class Choice:
    """Placements of all arguments and results along one dimension of the mesh."""

    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]


def choices(
    found: Labelled | None, counts: tuple[int, int], specs: Sequence[Any], earlier: Sequence[Choice]
) -> Iterator[Choice]:
    """Yield what a call allows along the next dimension of the mesh; replicated arguments first."""
    whole = Replicate()
    yield Choice((whole,) * counts[0], (whole,) * counts[1])
    if found is None:
        return
    if found.linear and counts[0]:
        yield Choice((Partial(),) * counts[0], (Partial(),) * counts[1])
    for label in dict.fromkeys(a for labels in found.inputs for a in labels if a is not None):
        choice = _along(found, label)
        if choice is None or not _fits(found, label, specs, earlier):
            continue
        yield choice
        if not _even(found, label):
            for factor in _factors(found, label, specs, len(earlier)):
                yield Choice(_strided(choice.inputs, factor), _strided(choice.outputs, factor))


def _even(found: Labelled, label: Any) -> bool:
    """Whether parts along a label must be equal."""
    return any(e == label or (isinstance(e, tuple) and e[0] == label) for e in found.even)


def _factors(found: Labelled, label: Any, specs: Sequence[Any], mesh_dim: int) -> set[int]:
    """Return the factors of arguments that `_StridedShard` divides along a label."""
    factors = set()
    for spec, labels in zip(specs, found.inputs, strict=True):
        placement = None if spec is None else spec.placements[mesh_dim]
        if isinstance(placement, _StridedShard) and labels[placement.dim] == label:
            factors.add(placement.split_factor)
    return factors


def _strided(placements: tuple[Placement, ...], factor: int) -> tuple[Placement, ...]:
    return tuple(_StridedShard(p.dim, split_factor=factor) if isinstance(p, Shard) else p for p in placements)


def _along(found: Labelled, label: Any) -> Choice | None:
    """Divide all that have a label."""
    is_gone = not any(label in out for out in found.outputs)
    if is_gone and not found.joined:
        return None
    some = any(label not in out for out in found.outputs)
    if some and not found.joined:
        return None
    rest: Placement = Partial(found.joined) if found.joined else Replicate()

    def lacking(i: int) -> Placement:
        return Partial() if i in found.added and some else Replicate()

    inputs = [Shard(x.index(label)) if label in x else lacking(i) for i, x in enumerate(found.inputs)]
    outputs = [Shard(x.index(label)) if label in x else rest for x in found.outputs]
    return Choice(tuple(inputs), tuple(outputs))


def _fits(found: Labelled, label: Any, specs: Sequence[Any], earlier: Sequence[Choice]) -> bool:
    """Whether parts are as equal as the call needs."""
    blocks = [e[1] for e in found.even if isinstance(e, tuple) and e[0] == label]
    if label not in found.even and not blocks:
        return True
    for k, (spec, labels) in enumerate(zip(specs, found.inputs, strict=True)):
        if spec is not None and label in labels:
            dim = labels.index(label)
            divided = [i for i, choice in enumerate(earlier) if _divides(choice.inputs[k], dim)]
            parts = math.prod(spec.mesh.size(i) for i in (*divided, len(earlier)))
            size = spec.shape[dim]
            if size == 0 or size % parts or any((size // parts) % block for block in blocks):
                return False
    return True


def _divides(placement: Placement, dim: int) -> bool:
    return isinstance(placement, Shard) and placement.dim == dim


def chosen(
    found: Labelled | None, specs: Sequence[DTensorSpec | None], results: int, kept: int | None
) -> list[Choice]:
    """Return the cheapest choice along each dimension of the mesh.

    Args:
        found: the labels of the call; None: there are none.
        specs: the arguments; None: an absent one.
        results: the number of results.
        kept: the argument that the call writes to, whose placements stay.
    """
    mesh = next(spec.mesh for spec in specs if spec is not None)
    picked: list[Choice] = []
    for mesh_dim in range(mesh.ndim):
        allowed = list(choices(found, (len(specs), results), specs, picked))
        if kept is not None:
            own = specs[kept]
            assert own is not None
            allowed = [c for c in allowed if c.inputs[kept] == own.placements[mesh_dim] == c.outputs[0]]
        if not allowed:
            return []
        picked.append(min(allowed, key=lambda c: _cost(c, specs, mesh_dim)))
    return picked


def _cost(choice: Choice, specs: Sequence[DTensorSpec | None], mesh_dim: int) -> float:
    """Elements that move; taking a share of what is there moves none."""
    total = 0.0
    for spec, after in zip(specs, choice.inputs, strict=True):
        if spec is None or spec.placements[mesh_dim] == after:
            continue
        before, size = spec.placements[mesh_dim], max(math.prod(spec.shape), 1)
        if isinstance(before, Partial):
            total += size if isinstance(after, Shard) else 2 * size
        elif isinstance(before, Shard):
            total += size
        else:
            total += 0.01
    return total
