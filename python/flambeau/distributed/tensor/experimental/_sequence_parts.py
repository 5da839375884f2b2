"""Which positions of a sequence each process of a context-parallel group has.

A sequence consists of 2n equal chunks for n processes. With causal masks, later positions have more keys, so
process r has the chunks r and 2n - 1 - r: the sum of their work is the same in all processes.
"""

from __future__ import annotations

import flambeau
from flambeau import Tensor


class _HeadTailLoadBalancer:
    """The order of positions in which each process has a chunk of the head and one of the tail.

    Args:
        seq_length: the number of positions, a multiple of twice the number of processes.
        world_size: the number of processes.
        device: where the indices are made.
    Raises: ValueError for another seq_length.
    Source: Llama Team 2024, "The Llama 3 Herd of Models", section 3.3.2.

    Example:
        >>> from flambeau.distributed.tensor.experimental._attention import _HeadTailLoadBalancer
        >>> _HeadTailLoadBalancer(8, 2, "cpu")._generate_indices()
        tensor([[0, 1, 6, 7, 2, 3, 4, 5]])
    """

    def __init__(self, seq_length: int, world_size: int, device: str | flambeau.device) -> None:
        if seq_length % (2 * world_size):
            raise ValueError(
                f"_HeadTailLoadBalancer: expected a seq_length that {2 * world_size} divides, got "
                f"{seq_length}"
            )
        self.seq_length, self.world_size, self.device = seq_length, world_size, device

    def _generate_indices(self, restore: bool = False) -> Tensor:
        """Return the positions in the order of the processes, or with `restore` the inverse permutation."""
        size = self.world_size
        chunks = flambeau.arange(self.seq_length, device=self.device).view(2 * size, -1)
        order = chunks[[chunk for rank in range(size) for chunk in (rank, 2 * size - 1 - rank)]].flatten()
        return (order.argsort() if restore else order).unsqueeze(0)


def is_balanced(part: int, enabled: bool) -> bool:
    """Whether the `part` positions of a process are a chunk of the head and one of the tail."""
    return enabled and part % 2 == 0


def part_of(tensor: Tensor, dim: int, rank: int, size: int, enabled: bool) -> Tensor:
    """Return a copy of what process `rank` of `size` has of a whole sequence."""
    length = tensor.size(dim) // size
    if not is_balanced(length, enabled):
        return tensor.narrow(dim, rank * length, length).clone()
    half = length // 2
    ends = [tensor.narrow(dim, chunk * half, half) for chunk in (rank, 2 * size - 1 - rank)]
    return flambeau.cat(ends, dim)


def pairs(rank: int, source: int, length: int, balanced: bool) -> tuple[slice, slice, bool] | None:
    """Return which queries of `rank` attend to which keys of `source` in a causal sequence.

    The result is the rows, the columns, and whether the causal mask applies to this block; None: no pair.
    """
    everything = slice(0, length)
    if rank == source:
        return everything, everything, True
    if not balanced:
        return (everything, everything, False) if source < rank else None
    half = length // 2
    # A process before `rank` has a head that all queries see and a tail that none sees. Of a process after
    # it, the tail of the queries sees everything and the head nothing.
    return (everything, slice(0, half), False) if source < rank else (slice(half, length), everything, False)
