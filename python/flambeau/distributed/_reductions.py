"""How elements of several processes become one, and the options of the methods of process groups."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import flambeau

NO_TIMEOUT = timedelta(milliseconds=-1)  # the group's own


class ReduceOp(enum.Enum):
    """How elements of several processes become one.

    ``AVG`` divides the sum by the number of processes; ``BAND``, ``BOR`` and ``BXOR`` are for integers and
    bool.

    Example:
        >>> flambeau.distributed.ReduceOp.SUM.name
        'SUM'
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


ReduceOp.__module__ = "flambeau.distributed"
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]


@dataclass(frozen=True)
class PremulSum:
    """The sum of elements that are first multiplied by a factor."""

    factor: Any


def _make_nccl_premul_sum(factor: Any) -> PremulSum:
    """Return the reduction that multiplies by a number or a tensor of one element, and adds."""
    return PremulSum(factor)


# The reductions of the engine, in the order of python/csrc/distributed/reductions.h.
REDUCTIONS = {
    name: number
    for number, name in enumerate(
        (
            ReduceOp.SUM,
            ReduceOp.PRODUCT,
            ReduceOp.MIN,
            ReduceOp.MAX,
            ReduceOp.BAND,
            ReduceOp.BOR,
            ReduceOp.BXOR,
        )
    )
}

# The types of elements that reductions know, in the order of python/csrc/distributed/reductions.h.
ELEMENTS = {
    dtype: number
    for number, dtype in enumerate(
        (
            flambeau.int8,
            flambeau.uint8,
            flambeau.int16,
            flambeau.uint16,
            flambeau.int32,
            flambeau.uint32,
            flambeau.int64,
            flambeau.uint64,
            flambeau.float16,
            flambeau.bfloat16,
            flambeau.float32,
            flambeau.float64,
            flambeau.complex64,
            flambeau.complex128,
            flambeau.bool,
        )
    )
}


@dataclass
class AllreduceOptions:
    """Options of `ProcessGroup.allreduce`.

    Args:
        reduceOp: the reduction.
        timeout: how long the operation may take; negative: as the group says.
        asyncOp: no effect.

    Example:
        >>> flambeau.distributed.AllreduceOptions().reduceOp.name
        'SUM'
    """

    reduceOp: ReduceOp | PremulSum = ReduceOp.SUM
    timeout: timedelta = NO_TIMEOUT
    asyncOp: bool = True


class AllreduceCoalescedOptions(AllreduceOptions):
    """Options of `ProcessGroup.allreduce_coalesced`.

    Args: As for `AllreduceOptions`.

    Example:
        >>> flambeau.distributed.AllreduceCoalescedOptions().reduceOp.name
        'SUM'
    """


@dataclass
class ReduceOptions:
    """Options of `ProcessGroup.reduce`.

    Args:
        reduceOp: the reduction.
        rootRank: the rank in the group of the sender or receiver.
        rootTensor: no effect.
        timeout: how long the operation may take; negative: as the group says.
        asyncOp: no effect.

    Example:
        >>> flambeau.distributed.ReduceOptions().rootRank
        0
    """

    reduceOp: ReduceOp | PremulSum = ReduceOp.SUM
    rootRank: int = 0
    rootTensor: int = 0
    timeout: timedelta = NO_TIMEOUT
    asyncOp: bool = True


@dataclass
class BroadcastOptions:
    """Options of `ProcessGroup.broadcast`.

    Args:
        rootRank: the rank in the group of the sender or receiver.
        rootTensor: no effect.
        timeout: how long the operation may take; negative: as the group says.
        asyncOp: no effect.

    Example:
        >>> flambeau.distributed.BroadcastOptions().rootRank
        0
    """

    rootRank: int = 0
    rootTensor: int = 0
    timeout: timedelta = NO_TIMEOUT
    asyncOp: bool = True


@dataclass
class AllgatherOptions:
    """Options of `ProcessGroup.allgather`.

    Args:
        timeout: how long the operation may take; negative: as the group says.
        asyncOp: no effect.

    Example:
        >>> flambeau.distributed.distributed_c10d.AllgatherOptions().asyncOp
        True
    """

    timeout: timedelta = NO_TIMEOUT
    asyncOp: bool = True


class GatherOptions(BroadcastOptions):
    """Options of `ProcessGroup.gather`.

    Args: As for `BroadcastOptions`.

    Example:
        >>> flambeau.distributed.GatherOptions().rootRank
        0
    """


class ScatterOptions(BroadcastOptions):
    """Options of `ProcessGroup.scatter`.

    Args: As for `BroadcastOptions`.

    Example:
        >>> flambeau.distributed.ScatterOptions().rootRank
        0
    """


class ReduceScatterOptions(AllreduceOptions):
    """Options of `ProcessGroup.reduce_scatter`.

    Args: As for `AllreduceOptions`.

    Example:
        >>> flambeau.distributed.ReduceScatterOptions().reduceOp.name
        'SUM'
    """


class AllToAllOptions(AllgatherOptions):
    """Options of `ProcessGroup.alltoall`.

    Args:
        timeout: how long the operation may take; negative: as the group says.
        asyncOp: no effect.

    Example:
        >>> flambeau.distributed.AllToAllOptions().asyncOp
        True
    """


@dataclass
class BarrierOptions:
    """Options of `ProcessGroup.barrier`.

    Args:
        device_ids: no effect.
        timeout: how long the operation may take; negative: as the group says.
        asyncOp: no effect.

    Example:
        >>> flambeau.distributed.BarrierOptions().device_ids
        []
    """

    device_ids: list[int] = field(default_factory=list)
    timeout: timedelta = NO_TIMEOUT
    asyncOp: bool = True


# What methods of groups do without options; no code changes these.
ALLGATHER = AllgatherOptions()
ALLREDUCE = AllreduceOptions()
ALLTOALL = AllToAllOptions()
BARRIER = BarrierOptions()
BROADCAST = BroadcastOptions()
GATHER = GatherOptions()
REDUCE = ReduceOptions()
REDUCESCATTER = ReduceScatterOptions()
SCATTER = ScatterOptions()
