"""Copies of tensors between devices, in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau._C import Tensor

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _place(device: Any) -> Any:
    return "cpu" if device in (None, -1) else device


def broadcast(tensor: Tensor, devices: Sequence[Any] | None = None, *, out: Any = None) -> tuple[Tensor, ...]:
    """Copy a tensor to devices, or into given tensors.

    Args:
        tensor: the tensor.
        devices: the devices of the copies; None with `out`.
        out: tensors of its shape, which are filled; None with `devices`.
    Returns: the copies, or the tensors of `out`.
    Raises: RuntimeError for both or neither of `devices` and `out`.

    Example:
        >>> len(flambeau.nn.parallel.comm.broadcast(flambeau.ones(2), ["cpu", "cpu"]))
        2
    """
    if (devices is None) == (out is None):
        raise RuntimeError("broadcast: expected either devices or out, got both or neither")
    if out is not None:
        return tuple(target.copy_(tensor) for target in out)
    return tuple(tensor.to(_place(device)) for device in devices or ())


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760
) -> list[tuple[Tensor, ...]]:
    """Copy several tensors to devices.

    Args:
        tensors: the tensors.
        devices: the devices.
        buffer_size: no effect.
    Returns: a tuple of copies for each device.

    Example:
        >>> len(flambeau.nn.parallel.comm.broadcast_coalesced([flambeau.ones(2)], ["cpu", "cpu"]))
        2
    """
    return [tuple(tensor.to(_place(device)) for tensor in tensors) for device in devices]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """Sum tensors of several devices.

    Args:
        inputs: the tensors, of one shape.
        destination: the device of the sum. Default: the CPU.
    Returns: the sum.
    Raises: ValueError for different shapes.

    Example:
        >>> flambeau.nn.parallel.comm.reduce_add([flambeau.ones(2), flambeau.ones(2)])
        tensor([2., 2.])
    """
    total = inputs[0].to(_place(destination))
    for other in inputs[1:]:
        if other.shape != total.shape:
            raise ValueError(f"reduce_add: expected shape {list(total.shape)}, got {list(other.shape)}")
        total = total + other.to(total.device)
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """Sum lists of tensors of several devices, place by place.

    Args:
        inputs: a list of tensors for each device.
        destination: the device of the sums. Default: the CPU.
        buffer_size: no effect.
    Returns: the sums.

    Example:
        >>> flambeau.nn.parallel.comm.reduce_add_coalesced([[flambeau.ones(1)], [flambeau.ones(1)]])
        (tensor([2.]),)
    """
    return tuple(reduce_add(column, destination) for column in zip(*inputs, strict=True))


def scatter(
    tensor: Tensor,
    devices: Sequence[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Any = None,
    *,
    out: Any = None,
) -> tuple[Tensor, ...]:
    """Split a tensor into a part for each device.

    Args:
        tensor: the tensor.
        devices: the devices of the parts.
        chunk_sizes: the sizes of the parts along `dim`. Default: equal ones.
        dim: the dimension.
        streams: no effect.
        out: tensors that the parts are copied into, instead of `devices`.
    Returns: the parts, or the tensors of `out`.

    Example:
        >>> flambeau.nn.parallel.comm.scatter(flambeau.tensor([1, 2]), ["cpu", "cpu"])
        (tensor([1]), tensor([2]))
    """
    if out is not None:
        parts = tensor.split([part.size(dim) for part in out], dim)
        return tuple(target.copy_(part) for target, part in zip(out, parts, strict=True))
    places = list(devices or ())
    parts = tensor.split(list(chunk_sizes), dim) if chunk_sizes else tensor.chunk(len(places), dim)
    return tuple(part.to(_place(place)) for part, place in zip(parts, places, strict=False))


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Any = None) -> Tensor:
    """Join tensors of several devices.

    Args:
        tensors: the tensors.
        dim: the dimension along which they are joined.
        destination: the device of the result. Default: the CPU.
        out: a tensor that is filled instead.
    Returns: the joined tensor, or `out`.

    Example:
        >>> flambeau.nn.parallel.comm.gather([flambeau.tensor([1]), flambeau.tensor([2])])
        tensor([1, 2])
    """
    joined = flambeau.cat([tensor.to(_place(destination)) for tensor in tensors], dim)
    return joined if out is None else out.copy_(joined)
