"""Collectives and their adjoints, by which gradients go back to where the elements came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.autograd import Function
from flambeau.distributed import _collectives as collectives
from flambeau.distributed._groups import get_rank, get_world_size
from flambeau.distributed._reductions import ReduceOp

_LINEAR = (ReduceOp.SUM, ReduceOp.AVG)


def _linear(name: str, op: Any) -> None:
    if op not in _LINEAR:
        raise RuntimeError(f"{name}: expected the reduction SUM or AVG for a gradient, got {op}")


def _all_equal(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [flambeau.empty_like(t, memory_format=flambeau.contiguous_format) for t in tensors]


class Broadcast(Function):
    """Copies of one process's tensor; the adjoint sums."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, src: int, pg: Any) -> Tensor:
        ctx.src, ctx.pg = src, pg
        result = tensor.clone()
        collectives.broadcast(result, src, group=pg)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        total = gradient.contiguous().clone()
        collectives.reduce(total, ctx.src, group=ctx.pg)
        return total if get_rank() == ctx.src else flambeau.zeros_like(total), None, None


class Reduce(Function):
    """A sum for one process; the adjoint copies."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, op: Any, pg: Any) -> Tensor:
        ctx.dst, ctx.op, ctx.pg = dst, op, pg
        result = tensor.clone()
        collectives.reduce(result, dst, op=op, group=pg)
        return result if get_rank() == dst else tensor.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        _linear("reduce", ctx.op)
        given = gradient.contiguous().clone()
        collectives.broadcast(given, ctx.dst, group=ctx.pg)
        if ctx.op == ReduceOp.AVG:
            given /= get_world_size(ctx.pg)
        return given, None, None, None


class AllReduce(Function):
    """A sum for all processes; so is the adjoint."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: Any, pg: Any) -> Tensor:
        ctx.op, ctx.pg = op, pg
        result = tensor.clone(memory_format=flambeau.contiguous_format)
        collectives.all_reduce(result, op=op, group=pg)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        _linear("all_reduce", ctx.op)
        return AllReduce.apply(gradient, ctx.op, ctx.pg), None, None


class Gather(Function):
    """All tensors for one process; the adjoint scatters."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, pg: Any) -> tuple[Tensor, ...]:
        ctx.dst, ctx.pg = dst, pg
        results = [flambeau.zeros_like(tensor) for _ in range(get_world_size(pg))]
        collectives.gather(tensor.contiguous(), results if get_rank() == dst else None, dst, group=pg)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return Scatter.apply(ctx.dst, ctx.pg, *gradients), None, None


class Scatter(Function):
    """One process's tensors for all; the adjoint gathers."""

    @staticmethod
    def forward(ctx: Any, src: int, pg: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.pg = src, pg
        result = flambeau.empty_like(tensors[0], memory_format=flambeau.contiguous_format)
        given = [t.contiguous() for t in tensors] if get_rank() == src else None
        collectives.scatter(result, given, src, group=pg)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return (None, None, *Gather.apply(gradient, ctx.src, ctx.pg))


class AllGather(Function):
    """All tensors for all processes; the adjoint sums and scatters."""

    @staticmethod
    def forward(ctx: Any, pg: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.pg = pg
        results = _all_equal([tensor] * get_world_size(pg))
        collectives.all_gather(results, tensor.contiguous(), group=pg)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        received = AllToAll.apply(ctx.pg, list(gradients), *gradients)
        return None, flambeau.stack(list(received)).sum(0)


class ReduceScatter(Function):
    """A part of the sum for each process; the adjoint gathers."""

    @staticmethod
    def forward(ctx: Any, op: Any, pg: Any, output: Tensor, *tensors: Tensor) -> Tensor:
        ctx.op, ctx.pg = op, pg
        result = flambeau.empty_like(output, memory_format=flambeau.contiguous_format)
        collectives.reduce_scatter(result, [t.contiguous() for t in tensors], op=op, group=pg)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        _linear("reduce_scatter", ctx.op)
        size = get_world_size(ctx.pg)
        if ctx.op == ReduceOp.AVG:
            gradient = gradient / size
        return (None, None, None, *AllGather.apply(ctx.pg, gradient))


class AllToAll(Function):
    """A tensor from each process for each; so is the adjoint."""

    @staticmethod
    def forward(ctx: Any, pg: Any, outputs: list[Tensor], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.pg, ctx.shapes = pg, [t.detach() for t in tensors]
        results = _all_equal(outputs)
        collectives.all_to_all(results, [t.contiguous() for t in tensors], group=pg)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return (None, None, *AllToAll.apply(ctx.pg, ctx.shapes, *gradients))


class AllToAllSingle(Function):
    """A part of a tensor from each process for each; so is the adjoint."""

    @staticmethod
    def forward(ctx: Any, pg: Any, output: Tensor, received: Any, sent: Any, tensor: Tensor) -> Tensor:
        ctx.pg, ctx.received, ctx.sent, ctx.shape = pg, received, sent, tensor.shape
        result = flambeau.empty_like(output, memory_format=flambeau.contiguous_format)
        collectives.all_to_all_single(result, tensor.contiguous(), received, sent, group=pg)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        back = gradient.new_empty(ctx.shape)
        return None, None, None, None, AllToAllSingle.apply(ctx.pg, back, ctx.sent, ctx.received, gradient)
