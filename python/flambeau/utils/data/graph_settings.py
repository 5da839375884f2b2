"""Settings of all data pipes in a chain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_settings", "get_all_graph_pipes"]


def _pipes_in(value: Any) -> Iterator[Any]:
    if isinstance(value, IterDataPipe | MapDataPipe):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _pipes_in(item)


def _every(pipe: Any, seen: dict[int, Any]) -> dict[int, Any]:
    """Collect a pipe and those that its attributes lead to, sources first."""
    if id(pipe) not in seen:
        for value in vars(pipe).values():
            for source in _pipes_in(value):
                _every(source, seen)
        seen[id(pipe)] = pipe
    return seen


def get_all_graph_pipes(graph: Any) -> list[Any]:
    """Return a pipe and all that it is made of, sources first."""
    return list(_every(graph, {}).values())


def _is_shuffler(pipe: Any) -> bool:
    return hasattr(pipe, "set_shuffle") and hasattr(pipe, "set_seed")


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Turn the shufflers of a chain on or off; without one, True adds one at its end. None: no change."""
    if shuffle is None:
        return datapipe
    shufflers = [pipe for pipe in get_all_graph_pipes(datapipe) if _is_shuffler(pipe)]
    if shuffle and not shufflers:
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_sharding(datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> Any:
    """Let every pipe of a chain that can be sharded keep one part of `num_of_instances`."""
    for pipe in get_all_graph_pipes(datapipe):
        if hasattr(pipe, "is_shardable") and pipe.is_shardable():
            pipe.apply_sharding(num_of_instances, instance_id)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Give every pipe of a chain that draws numbers a seed of a generator."""
    import flambeau

    for pipe in get_all_graph_pipes(datapipe):
        if hasattr(pipe, "set_seed"):
            pipe.set_seed(int(flambeau.empty((), dtype=flambeau.int64).random_(generator=rng)))
    return datapipe
