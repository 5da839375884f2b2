"""The differentiable forms of copies between devices; operators record their own gradients."""

from __future__ import annotations

from typing import Any

from flambeau.autograd.function import Function
from flambeau.nn.parallel import comm


class Broadcast(Function):
    """Copies on several devices; gradients are added."""

    @staticmethod
    def forward(ctx: Any, target_gpus: Any, *inputs: Any) -> Any:
        """Copy each tensor to each device."""
        ctx.count, ctx.devices = len(inputs), [x.device for x in inputs]
        ctx.set_materialize_grads(False)
        return tuple(x.to(place) * 1 for place in target_gpus for x in inputs)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Add the gradients of the copies."""
        rows = [grad_outputs[i :: ctx.count] for i in range(ctx.count)]
        known = [[g for g in row if g is not None] for row in rows]
        pairs = zip(known, ctx.devices, strict=True)
        return (None, *(comm.reduce_add(row, place) if row else None for row, place in pairs))


class Scatter(Function):
    """Parts along a dimension, one per device."""

    @staticmethod
    def forward(ctx: Any, target_gpus: Any, chunk_sizes: Any, dim: int, input: Any) -> Any:
        """Split the tensor."""
        ctx.dim, ctx.device = dim, input.device
        return tuple(part.clone() for part in comm.scatter(input, target_gpus, chunk_sizes, dim))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Join the gradients."""
        return None, None, None, comm.gather(grad_outputs, ctx.dim, ctx.device)


class Gather(Function):
    """Tensors of several devices joined along a dimension."""

    @staticmethod
    def forward(ctx: Any, target_device: Any, dim: int, *inputs: Any) -> Any:
        """Join the tensors."""
        ctx.dim, ctx.sizes = dim, [x.size(dim) for x in inputs]
        ctx.devices = [x.device for x in inputs]
        return comm.gather(inputs, dim, target_device)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        """Split the gradient."""
        return None, None, *comm.scatter(grad_output, ctx.devices, ctx.sizes, ctx.dim)
