"""Placements: how a tensor lies on the processes along one dimension of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

REDUCTIONS = ("sum", "avg", "product", "min", "max")


class Placement:
    """How a tensor lies on the processes along one dimension of a mesh: `Shard`, `Replicate` or `Partial`.

    Example:
        >>> from flambeau.distributed.tensor import Replicate, Shard
        >>> Shard(0).is_shard(), Replicate().is_replicate()
        (True, True)
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process has a part, along a dimension if one is given."""
        return False

    def is_replicate(self) -> bool:
        """Whether each process has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the tensor is the reduction of what the processes have, by a reduction if one is given."""
        return False


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has a part along a dimension, in their order; the first parts are the largest.

    A size `n` over `p` processes gives parts of ``ceil(n / p)`` until nothing is left.

    Args:
        dim: the dimension of the tensor.

    Example:
        >>> flambeau.distributed.tensor.Shard(1)
        Shard(dim=1)
    """

    dim: int

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process has a part, along a dimension if one is given."""
        return dim is None or self.dim == dim

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Return the size of a process's part and where it begins.

        Args:
            curr_local_size: the size that is divided.
            num_chunks: the number of processes.
            rank: the process.
        """
        chunk = -(-curr_local_size // num_chunks)
        begin = min(rank * chunk, curr_local_size)
        return min(chunk, curr_local_size - begin), begin


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Each process has a part of what `Shard` along later dimensions of the mesh leaves of a dimension.

    Args:
        dim: the dimension of the tensor.
        split_factor: the number of processes along these later dimensions.

    Example:
        >>> flambeau.distributed.tensor.placement_types._StridedShard(0, split_factor=2)
        _StridedShard(dim=0, sf=2)
    """

    split_factor: int = field(kw_only=True)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has the whole tensor.

    Example:
        >>> flambeau.distributed.tensor.Replicate()
        Replicate()
    """

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """The tensor is the reduction of the tensors that the processes have.

    Args:
        reduce_op: "sum", "avg", "product", "min" or "max".

    Example:
        >>> flambeau.distributed.tensor.Partial()
        Partial(sum)
    """

    reduce_op: str = "sum"

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the tensor is a reduction, by a reduction if one is given."""
        return reduce_op is None or self.reduce_op == reduce_op

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


def in_order(placements: Sequence[Placement]) -> list[int]:
    """Return the dimensions of a mesh in the order in which they divide a tensor."""
    return sorted(range(len(placements)), key=lambda i: isinstance(placements[i], _StridedShard))


def normalized(name: str, given: object, count: int, ndim: int) -> tuple[Placement, ...]:
    """Return placements with dimensions from 0 on. Raises: ValueError for wrong ones."""
    placements = (Replicate(),) * count if given is None else tuple(given)  # type: ignore[arg-type]
    if len(placements) != count:
        raise ValueError(
            f"{name}: expected {count} placements, one per dimension of the mesh, got {placements}"
        )
    return tuple(_checked(name, placement, ndim) for placement in placements)


def _checked(name: str, placement: object, ndim: int) -> Placement:
    if isinstance(placement, Shard):
        if not -ndim <= placement.dim < ndim:
            raise ValueError(f"{name}: expected Shard along a dimension below {ndim}, got {placement!r}")
        if isinstance(placement, _StridedShard):
            return _StridedShard(placement.dim % ndim, split_factor=placement.split_factor)
        return Shard(placement.dim % ndim)
    if isinstance(placement, Partial) and placement.reduce_op not in REDUCTIONS:
        raise ValueError(f"{name}: expected a reduction among {REDUCTIONS}, got {placement!r}")
    if not isinstance(placement, Placement):
        raise ValueError(f"{name}: expected Shard, Replicate or Partial, got {placement!r}")
    return placement


for _kind in (Placement, Shard, _StridedShard, Replicate, Partial):
    _kind.__module__ = "flambeau.distributed.tensor.placement_types"
