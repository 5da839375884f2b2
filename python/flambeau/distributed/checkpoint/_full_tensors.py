"""Whole tensors from the parts of all ranks, and parts from whole tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau.distributed._collectives import broadcast
from flambeau.distributed._groups import get_rank, is_initialized
from flambeau.distributed._objects import broadcast_object_list

from ._chunks import is_dtensor

Path = tuple[Any, ...]


def mapped(tree: Any, change: Callable[[Path, Any], Any], path: Path = ()) -> Any:
    """Return dicts, lists and tuples with their leaves changed, in order."""
    if isinstance(tree, dict):
        return {key: mapped(value, change, (*path, key)) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(mapped(value, change, (*path, i)) for i, value in enumerate(tree))
    return change(path, tree)


def presented(tree: Any, full: bool, to_cpu: bool) -> Any:
    """Return a state as a program asked for it.

    Args:
        tree: the state.
        full: whether DTensors become whole tensors.
        to_cpu: whether tensors move to the CPU; full as well: only rank 0 gets them, others an empty dict.
    """

    def change(path: Path, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if full and is_dtensor(value):
            value = value.full_tensor()  # type: ignore[attr-defined]
        return value.cpu() if to_cpu and here else None if to_cpu and full else value

    here = not (full and to_cpu and is_initialized() and get_rank() > 0)
    found = mapped(tree, change)
    return found if here else {}


def part_like(whole: Tensor, target: Any) -> Tensor:
    """Return this rank's part of a tensor, with the placements of another; nothing is sent."""
    if not is_dtensor(target) or is_dtensor(whole):
        return whole
    from flambeau.distributed.tensor import distribute_tensor

    mesh, placements = target.device_mesh, target.placements
    made = distribute_tensor(whole.detach(), mesh, placements, src_data_rank=None)
    return made.clone() if any(p.is_shard() for p in placements) else made  # a view would keep the whole


@dataclass
class _Described:
    """A tensor of rank 0 that the others get."""

    shape: tuple[int, ...]
    dtype: Any


def _described(name: str, path: Path, value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    if is_dtensor(value):
        where = ".".join(map(str, path))
        raise ValueError(f"{name}: expected a whole tensor for {where!r} in rank 0, got a DTensor")
    return _Described(tuple(value.shape), value.dtype)


def from_rank_0(name: str, tree: Any, keep: Callable[[Path, Tensor], Tensor]) -> Any:
    """Return the state of rank 0 in all processes; one whole tensor is there at a time.

    Args:
        name: the public function.
        tree: the state; only that of rank 0 counts.
        keep: returns what a process keeps of a tensor.
    """
    is_source = get_rank() == 0
    box, failure = [None], None
    if is_source:
        try:
            box = [mapped(tree, partial(_described, name))]
        except ValueError as error:
            failure = error
            box = [str(error)]  # type: ignore[list-item]
    broadcast_object_list(box, 0)
    if isinstance(box[0], str):
        raise ValueError(box[0]) from failure
    leaves: dict[Path, Tensor] = {}
    if is_source:
        mapped(tree, lambda path, value: leaves.__setitem__(path, value))

    def receive(path: Path, value: Any) -> Any:
        if not isinstance(value, _Described):
            return value
        if is_source:
            whole = leaves[path].detach().contiguous()
        else:
            whole = flambeau.empty(value.shape, dtype=value.dtype)
        broadcast(whole, 0)
        return keep(path, whole)

    return mapped(box[0], receive)
