"""Tensor parallelism: plans that divide the parameters of modules (docs/distributed.md)."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator

from flambeau import nn
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._api import _mesh_of
from flambeau.distributed.tensor.parallel._styles import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]


def parallelize_module(
    module: nn.Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> nn.Module:
    """Divide a module among processes by a plan, in place.

    Args:
        module: the module.
        device_mesh: a mesh of one dimension; None: all processes.
        parallelize_plan: a style for the module itself, or names of submodules with styles; in a name, ``*``
            stands for any text without a dot, and ``?`` for one character.
        src_data_rank: the place in the mesh whose parameters count; None: each process's own.
    Returns: the module.
    Raises: ValueError for a mesh of several dimensions; TypeError for another plan. A name without a module
        gives a warning.

    Example:
        >>> from flambeau.distributed.tensor.parallel import ColwiseParallel, parallelize_module
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = flambeau.nn.Sequential(flambeau.nn.Linear(2, 4))
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> parallelize_module(model, mesh, {"0": ColwiseParallel()})[0].weight.placements
        (Shard(dim=0),)
        >>> dist.destroy_process_group()
    """
    import warnings

    mesh = _mesh_of(device_mesh)
    if mesh.ndim != 1:
        raise ValueError(f"parallelize_module: expected a mesh of one dimension, got {mesh}")
    if parallelize_plan is None:
        warnings.warn("parallelize_module: no plan is given, so that nothing is divided", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            f"parallelize_module: expected a ParallelStyle or a dict, got {type(parallelize_plan).__name__}"
        )
    for pattern, style in parallelize_plan.items():
        found = list(_matching(module, pattern.split(".")))
        if not found:
            warnings.warn(f"parallelize_module: no submodule matches {pattern!r}", stacklevel=2)
        for part in found:
            parallelize_module(part, mesh, style, src_data_rank=src_data_rank)
    return module


def _matching(module: nn.Module, words: list[str]) -> Iterator[nn.Module]:
    """Yield the submodules whose names match, one word per level."""
    if words in ([], [""]):
        yield module
        return
    for name, child in module.named_children():
        if fnmatch.fnmatchcase(name, words[0]):
            yield from _matching(child, words[1:])


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """Return a region in which `cross_entropy` takes logits that are divided along classes.

    Outside of the region, `cross_entropy` takes them as well: in both cases the processes exchange a few
    numbers per row instead of logits, and a target that is no `DTensor` counts as replicated.

    Returns: a context manager.

    Example:
        >>> from flambeau.distributed.tensor.parallel import loss_parallel
        >>> with loss_parallel():
        ...     pass
    """
    yield
