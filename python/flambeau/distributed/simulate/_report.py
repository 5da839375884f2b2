"""RankReport: what ranks of one class do during a step, and the memory that they have."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flambeau.distributed.simulate._classes import RankClass
from flambeau.distributed.simulate._engine import Task
from flambeau.distributed.simulate._program import KINDS_OF_WORK

MEMORY_KINDS = ("parameters", "gradients", "optimizer", "activations", "buffers")


@dataclass(frozen=True, slots=True)
class Event:
    """One computation, collective or message of a rank.

    Args:
        name: what it belongs to.
        kind: "forward", "backward", "input grads", "weight grads", "optimizer", "all_reduce", "all_gather",
            "reduce_scatter" or "send".
        stream: the streams of the rank that it occupies.
        start: seconds after the begin of the step.
        end: seconds after the begin of the step.
        nbytes: bytes of the whole tensor of a collective, or of a message.
        size: the number of ranks that take part.
        algorithm: that of a collective.

    Example:
        >>> from flambeau.distributed.simulate import Event
        >>> Event("block", "forward", ("compute",), 0.0, 2.0).is_work
        True
    """

    name: str
    kind: str
    stream: tuple[str, ...]
    start: float
    end: float
    nbytes: float = 0.0
    size: int = 1
    algorithm: str = ""

    @property
    def is_work(self) -> bool:
        """Whether it is a computation."""
        return self.kind in KINDS_OF_WORK


@dataclass(frozen=True)
class RankReport:
    """What ranks that behave alike do during a step.

    The seconds `busy`, `exposed` and `idle` add up to the time of the step.

    Args:
        first: the lowest of the ranks.
        count: the number of ranks.
        stage: their stage of the pipeline.
        busy: seconds of computation.
        exposed: seconds of communication while nothing is computed.
        idle: seconds without either, in which the rank waits for others.
        communication: seconds in which some communication runs.
        memory: kind -> bytes when the sum is largest.
        peak: the largest sum of bytes.
        events: computations and communication, in the order of their begin.

    Example:
        >>> from flambeau.distributed.simulate import Plan, preset, simulate_step, transformer
        >>> plan = Plan(pipeline=4, micro_batches=8)
        >>> [rank.stage for rank in simulate_step(transformer("7b"), preset("h100", 4), plan).ranks]
        [0, 1, 2, 3]
    """

    first: int
    count: int
    stage: int
    busy: float
    exposed: float
    idle: float
    communication: float
    memory: Mapping[str, float]
    peak: float
    events: tuple[Event, ...] = field(repr=False)

    def collectives(self) -> list[tuple[str, float, int]]:
        """Return kind, bytes of the whole tensor and number of ranks of each collective, in order."""
        found = (event for event in self.events if not event.is_work and event.kind != "send")
        return [(event.kind, event.nbytes, event.size) for event in found]


def _merged(spans: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield the union of spans as spans that do not touch."""
    begin, end = 0.0, 0.0
    for start, stop in sorted(spans):
        if start > end:
            if end > begin:
                yield begin, end
            begin, end = start, stop
        end = max(end, stop)
    if end > begin:
        yield begin, end


def _length(spans: Iterable[tuple[float, float]]) -> float:
    return sum(stop - start for start, stop in _merged(spans))


def _peak(number: int, tasks: Sequence[Task], base: dict[str, float]) -> dict[str, float]:
    """Return bytes by kind when their sum is largest.

    At one time, tasks that end give memory back before others that begin take some; tasks without length have
    both of their changes in between. The order of tasks that begin together has no effect.
    """
    changes = [
        (task.end, 2 if task.end == task.start else 0, change.kind, change.nbytes)
        if change.at_end
        else (task.start, 1, change.kind, change.nbytes)
        for task in tasks
        for change in task.changes
        if change.rank == number
    ]
    now = dict.fromkeys(MEMORY_KINDS, 0.0) | base
    found = dict(now)
    most = sum(now.values())
    for _, together in itertools.groupby(sorted(changes), key=lambda change: change[:2]):
        for _, _, kind, nbytes in together:
            now[kind] += nbytes
        total = sum(now.values())
        if total > most:
            most, found = total, dict(now)
    return found


def report_of(member: RankClass, own: Sequence[Task], length: float, base: dict[str, float]) -> RankReport:
    """Return the report of a class.

    Args:
        member: the class.
        own: its tasks, in the order of their begin.
        length: seconds of the step.
        base: bytes that the rank has throughout, by kind.
    """
    events = [
        Event(
            task.name,
            task.kind,
            tuple(stream for rank, stream in task.queues if rank == member.number),
            task.start,
            task.end,
            task.nbytes,
            task.size,
            task.algorithm,
        )
        for task in own
        if member.number in task.ranks and (task.kind not in KINDS_OF_WORK or task.seconds > 0)
    ]
    work = [(e.start, e.end) for e in events if e.is_work]
    transfers = [(e.start, e.end) for e in events if not e.is_work]
    busy, either = _length(work), _length([*work, *transfers])
    memory = _peak(member.number, own, base)
    return RankReport(
        member.first,
        member.ranks,
        member.stage,
        busy,
        either - busy,
        length - either,
        _length(transfers),
        memory,
        sum(memory.values()),
        tuple(events),
    )
