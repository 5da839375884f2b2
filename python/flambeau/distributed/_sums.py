"""Sums over processes that gradients pass through."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.autograd import Function
from flambeau.distributed._collectives import all_reduce
from flambeau.distributed._process_group import ProcessGroup


class _Summed(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: ProcessGroup | None) -> Tensor:
        ctx.group = group
        total = tensor.clone()
        all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        total = gradient.clone()
        all_reduce(total, group=ctx.group)
        return total, None


def summed(tensor: Tensor, group: ProcessGroup | None) -> Tensor:
    """Return the sum of the tensors of all processes, whose gradient is the sum of all gradients.

    Args:
        tensor: this process's tensor.
        group: the processes; None: all.
    Returns: the sum, of the shape of `tensor`.
    """
    return _Summed.apply(tensor, group)
