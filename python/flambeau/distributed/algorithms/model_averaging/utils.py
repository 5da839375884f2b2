"""Averages of parameters over processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._collectives import all_reduce
from flambeau.distributed._groups import get_rank, get_world_size
from flambeau.distributed._process_group import ProcessGroup

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Iterator[Tensor], process_group: ProcessGroup | None) -> None:
    """Average parameters over processes, in place.

    Args:
        params: the parameters, of the same shapes in all processes.
        process_group: the processes; None: all.
    Returns: None.

    Example:
        >>> from flambeau.distributed.algorithms.model_averaging.utils import average_parameters
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> average_parameters(iter([flambeau.nn.Parameter(flambeau.ones(2))]), None)
        >>> dist.destroy_process_group()
    """
    if get_rank(process_group) < 0:
        return
    by_dtype: dict[Any, list[Tensor]] = {}
    for parameter in params:
        by_dtype.setdefault(parameter.dtype, []).append(parameter)
    with flambeau.no_grad():
        for same in by_dtype.values():
            flat = flambeau.cat([p.reshape(-1) for p in same]) / get_world_size(process_group)
            all_reduce(flat, group=process_group)
            for parameter, part in zip(same, flat.split([p.numel() for p in same]), strict=True):
                parameter.copy_(part.view(parameter.shape))


def get_params_to_average(params: Iterable[Any]) -> list[Tensor]:
    """Return the parameters that have gradients.

    Args:
        params: parameters, or dicts of parameter groups.
    Returns: a list.
    Raises: NotImplementedError for other elements.

    Example:
        >>> from flambeau.distributed.algorithms.model_averaging.utils import get_params_to_average
        >>> get_params_to_average([flambeau.nn.Parameter(flambeau.ones(2))])
        []
    """
    found: list[Tensor] = []
    for entry in params:
        if isinstance(entry, Tensor):
            group = [entry]
        elif isinstance(entry, dict) and "params" in entry:
            group = entry["params"]
        else:
            raise NotImplementedError(
                f"get_params_to_average: Parameter input of type {type(entry)} is not supported: expected a "
                "tensor or a dict with params"
            )
        found += [p for p in group if p.grad is not None]
    return found


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: ProcessGroup | None) -> None:
    """Average the parameters that have gradients over processes, in place.

    Args:
        params: parameters, or dicts of parameter groups.
        process_group: the processes; None: all.
    Returns: None.
    Raises: NotImplementedError for other elements.

    Example:
        >>> from flambeau.distributed.algorithms.model_averaging import utils
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> utils.average_parameters_or_parameter_groups([flambeau.nn.Parameter(flambeau.ones(2))], None)
        >>> dist.destroy_process_group()
    """
    average_parameters(iter(get_params_to_average(params)), process_group)
