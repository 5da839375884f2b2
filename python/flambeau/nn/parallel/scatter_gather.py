"""Parts of batches for several devices, and results put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau._C import Tensor

__all__ = ["gather", "is_namedtuple", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    """Whether it is a named tuple."""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def _like(model: Any, parts: list[Any]) -> Any:
    return type(model)(*parts) if is_namedtuple(model) else type(model)(parts)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Split the tensors of an object along a dimension, one part per device, and repeat all else.

    Args:
        inputs: a tensor, or containers of tensors and other objects.
        target_gpus: the devices.
        dim: the dimension to split.
    Returns: a sequence of objects like `inputs`, one per device.

    Example:
        >>> flambeau.nn.parallel.scatter_gather.scatter({"x": flambeau.arange(4), "n": 1}, ["cpu", "cpu"])
        [{'x': tensor([0, 1]), 'n': 1}, {'x': tensor([2, 3]), 'n': 1}]
    """
    count = len(target_gpus)
    if isinstance(inputs, Tensor):
        parts = inputs.chunk(count, dim)
        return tuple(part.to(device) for part, device in zip(parts, target_gpus, strict=False))
    if isinstance(inputs, dict) and inputs:
        columns = [scatter(value, target_gpus, dim) for value in inputs.values()]
        return [type(inputs)(zip(inputs, row, strict=True)) for row in zip(*columns, strict=False)]
    if isinstance(inputs, tuple | list) and inputs:
        rows = zip(*(scatter(value, target_gpus, dim) for value in inputs), strict=False)
        return [_like(inputs, list(row)) for row in rows]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: Any, kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Return the arguments, and the keyword arguments, of each device."""
    rows = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    rows += [()] * (len(named) - len(rows))
    named += [{} for _ in range(len(rows) - len(named))]
    return tuple(rows), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Join the tensors of several results along a dimension, on one device.

    Args:
        outputs: results of the same structure: tensors, or containers of tensors.
        target_device: the device of the result.
        dim: the dimension along which they are joined.
    Returns: an object like one of the results; tensors of 0 dimensions become a vector.
    Raises: ValueError for dictionaries of different sizes.

    Example:
        >>> flambeau.nn.parallel.gather([flambeau.ones(1), flambeau.zeros(2)], "cpu")
        tensor([1., 0., 0.])
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        place = "cpu" if target_device in (-1, None) else target_device
        parts = [out.unsqueeze(0) if first.dim() == 0 else out for out in outputs]
        return flambeau.cat(parts, 0 if first.dim() == 0 else dim).to(place)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(out) != len(first) for out in outputs):
            raise ValueError(f"gather: expected dicts of one length, got {[len(out) for out in outputs]}")
        return type(first)((k, gather([out[k] for out in outputs], target_device, dim)) for k in first)
    return _like(first, [gather(list(column), target_device, dim) for column in zip(*outputs, strict=True)])
