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
    """Return copies on `devices`, or fill the tensors of `out`."""
    if (devices is None) == (out is None):
        raise RuntimeError("broadcast: expected one of devices and out")
    if out is not None:
        return tuple(target.copy_(tensor) for target in out)
    return tuple(tensor.to(_place(device)) for device in devices or ())


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760
) -> list[tuple[Tensor, ...]]:
    """Return the copies of several tensors, one tuple per device."""
    return [tuple(tensor.to(_place(device)) for tensor in tensors) for device in devices]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """Return the sum of tensors of several devices, on one."""
    total = inputs[0].to(_place(destination))
    for other in inputs[1:]:
        if other.shape != total.shape:
            raise ValueError(f"reduce_add: expected shape {list(total.shape)}, got {list(other.shape)}")
        total = total + other.to(total.device)
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """Return the sums of several tensors."""
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
    """Split a tensor along `dim`, one part per device."""
    if out is not None:
        parts = tensor.split([part.size(dim) for part in out], dim)
        return tuple(target.copy_(part) for target, part in zip(out, parts, strict=True))
    places = list(devices or ())
    parts = tensor.split(list(chunk_sizes), dim) if chunk_sizes else tensor.chunk(len(places), dim)
    return tuple(part.to(_place(place)) for part, place in zip(parts, places, strict=False))


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Any = None) -> Tensor:
    """Join tensors of several devices along `dim`, on one."""
    joined = flambeau.cat([tensor.to(_place(destination)) for tensor in tensors], dim)
    return joined if out is None else out.copy_(joined)
