"""Attention over a sequence whose parts are on several processes.

Each process has the queries, keys and values of its positions. It computes attention of its queries to the
keys of one process after another and merges the results. With the logarithms a and b of the sums of
exponentials:

    result = (exp(a) A + exp(b) B) / (exp(a) + exp(b)),   logsumexp = log(exp(a) + exp(b)).

The gradients of a block follow from the result and logsumexp of the whole row, so backward visits the same
blocks; gradients of keys and values are added over the processes. Numbers between the blocks are float32, or
double for double; keys and values are sent in their own dtype.

Sources: Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context"; Llama Team
2024, "The Llama 3 Herd of Models", section 3.3.2 (all-gather).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.autograd.function import Function, once_differentiable
from flambeau.distributed import _collectives
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed._work import Work
from flambeau.distributed.tensor.experimental._sequence_parts import pairs


@dataclass(frozen=True)
class Ring:
    """How the processes of a group compute one attention together."""

    group: ProcessGroup
    gathers: bool  # all keys and values are gathered at once; otherwise they go round step by step
    is_causal: bool
    balanced: bool
    scale: float

    @property
    def rank(self) -> int:
        """The place of this process in the group."""
        return self.group.rank()

    @property
    def size(self) -> int:
        """The number of processes."""
        return self.group.size()

    def block(self, source: int, rows: int, columns: int) -> tuple[slice, slice, bool] | None:
        """Return which of this process's queries attend to which keys of `source`, and whether causally."""
        if not self.is_causal:
            return slice(0, rows), slice(0, columns), False
        return pairs(self.rank, source, columns, self.balanced)

    def started(self, given: Tensor) -> tuple[Tensor, Work]:
        """Start to pass a flat tensor to the next process; return what comes from the one before."""
        found = flambeau.empty_like(given)
        outgoing, incoming = [0] * self.size, [0] * self.size
        outgoing[(self.rank + 1) % self.size] = incoming[(self.rank - 1) % self.size] = given.numel()
        work = _collectives.all_to_all_single(found, given, incoming, outgoing, self.group, async_op=True)
        return found, _pending(work)

    def sources(self, mine: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield each process and its flat tensor, this one first; communicate during the caller's work."""
        order = [(self.rank - step) % self.size for step in range(self.size)]
        if self.gathers:
            every = mine.new_empty(self.size, mine.numel())
            work = _pending(_collectives.all_gather_into_tensor(every, mine, self.group, async_op=True))
            yield self.rank, mine
            work.wait()
            yield from ((source, every[source]) for source in order[1:])
            return
        for source in order[:-1]:
            following, work = self.started(mine)
            yield source, mine
            work.wait()
            mine = following
        yield order[-1], mine


def _pending(work: Work | None) -> Work:
    assert work is not None  # the caller is a member of the group
    return work


class _Shapes:
    """Keys and values as one flat tensor, and heads that several heads of queries share."""

    def __init__(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        self.key, self.value = key.shape, value.shape
        self.wide = flambeau.float64 if query.dtype == flambeau.float64 else flambeau.float32
        self.lead = query.shape[:-2]

    def flat(self, key: Tensor, value: Tensor) -> Tensor:
        """Join keys and values."""
        return flambeau.cat([key.flatten(), value.flatten()])

    def split(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values as views of a flat tensor."""
        first, second = flat.split([self.key.numel(), self.value.numel()])
        return first.view(self.key), second.view(self.value)

    def columns(self, tensor: Tensor, part: slice) -> Tensor:
        """Return some columns of keys or values in the wide dtype, with the heads of the queries."""
        found = tensor[..., part, :].to(self.wide)
        if found.shape[:-2] != self.lead:
            found = found.repeat_interleave(self.lead[-1] // found.size(-3), -3)
        return found

    def add(self, sums: Tensor, part: slice, gradient: Tensor) -> None:
        """Add the gradient of `columns` to that of the tensor."""
        if gradient.shape[:-2] != sums.shape[:-2]:
            gradient = gradient.unflatten(-3, (sums.size(-3), -1)).sum(-3)
        sums[..., part, :] += gradient


class RingAttention(Function):
    """Attention of this process's queries to the keys of all processes."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, ring: Ring) -> Tensor:
        """Visit the keys and values of all processes and merge the results."""
        shapes = _Shapes(query, key, value)
        rows, columns = query.size(-2), key.size(-2)
        wide = query.to(shapes.wide)
        total = wide.new_zeros(*query.shape[:-1], value.size(-1))
        sums = wide.new_full(query.shape[:-1], float("-inf"))
        for source, flat in ring.sources(shapes.flat(key, value)):
            block = ring.block(source, rows, columns)
            if block is None:
                continue
            part, seen, causal = block
            k, v = (shapes.columns(t, seen) for t in shapes.split(flat))
            found, lse = flambeau.ops.aten._attention(wide[..., part, :], k, v, None, ring.scale, causal)
            _merge(total[..., part, :], sums[..., part], found, lse)
        result = total.to(query.dtype)
        ctx.save_for_backward(query, key, value, result, sums)
        ctx.ring = ring
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Visit the keys and values again; add the gradients of each process's part over all processes."""
        query, key, value, result, sums = ctx.saved_tensors
        shapes, ring = _Shapes(query, key, value), ctx.ring
        wide = [t.to(shapes.wide) for t in (gradient, query, result)]
        to_query = flambeau.zeros_like(wide[1])
        exchange = _Gathered(ring, shapes) if ring.gathers else _Passed(ring, shapes)
        for source, flat in ring.sources(shapes.flat(key, value)):
            parts = flambeau.zeros(flat.numel(), dtype=shapes.wide)
            block = ring.block(source, query.size(-2), key.size(-2))
            if block is not None:
                _add_block(ring, shapes, block, (*wide, sums), flat, (to_query, parts))
            exchange.add(source, parts)
        to_key, to_value = shapes.split(exchange.total())
        return to_query.to(query.dtype), to_key.to(key.dtype), to_value.to(value.dtype), None


def _merge(total: Tensor, sums: Tensor, found: Tensor, lse: Tensor) -> None:
    """Merge the result of a block into views of the results and logarithms of sums."""
    merged = flambeau.logaddexp(sums, lse)
    total.mul_((sums - merged).exp().unsqueeze(-1)).add_(found * (lse - merged).exp().unsqueeze(-1))
    sums.copy_(merged)


def _add_block(
    ring: Ring,
    shapes: _Shapes,
    block: tuple[slice, slice, bool],
    rows: tuple[Tensor, ...],
    flat: Tensor,
    to: tuple[Tensor, Tensor],
) -> None:
    """Add the gradients of one block to those of the queries and to the flat ones of its keys and values."""
    part, seen, causal = block
    gradient, query, result = (t[..., part, :] for t in rows[:3])
    k, v = (shapes.columns(t, seen) for t in shapes.split(flat))
    to_query, to_key, to_value = flambeau.ops.aten._attention_backward_blocks(
        gradient, query, k, v, None, result, rows[3][..., part], ring.scale, causal
    )
    to[0][..., part, :] += to_query
    for sums, found in zip(shapes.split(to[1]), (to_key, to_value), strict=True):
        shapes.add(sums, seen, found)


class _Gathered:
    """Gradients of the keys and values of all processes, which one collective adds at the end."""

    def __init__(self, ring: Ring, shapes: _Shapes) -> None:
        self.ring, self.parts = ring, [flambeau.empty(0)] * ring.size

    def add(self, source: int, parts: Tensor) -> None:
        """Keep what this process adds to the gradients of `source`."""
        self.parts[source] = parts

    def total(self) -> Tensor:
        """Return the gradients of this process's keys and values."""
        found = flambeau.empty_like(self.parts[0])
        _collectives.reduce_scatter_tensor(found, flambeau.cat(self.parts), group=self.ring.group)
        return found


class _Passed:
    """Gradients that follow their keys and values round the processes until they are at home."""

    def __init__(self, ring: Ring, shapes: _Shapes) -> None:
        self.ring, self.coming = ring, None

    coming: tuple[Tensor, Work] | None

    def add(self, source: int, parts: Tensor) -> None:
        """Add this process's part to the gradients of `source`, and pass them on."""
        if self.coming is not None:
            parts += self._arrived()
        self.coming = self.ring.started(parts)

    def _arrived(self) -> Tensor:
        assert self.coming is not None
        sums, work = self.coming
        work.wait()
        return sums

    def total(self) -> Tensor:
        """Return the gradients of this process's keys and values, which the next process passed on last."""
        return self._arrived()
