"""Result: what a simulated step takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from flambeau.autograd._event_table import format_memory, format_time
from flambeau.distributed.simulate import _numbers as numbers
from flambeau.distributed.simulate._hardware import Cluster
from flambeau.distributed.simulate._plan import Layout, Plan
from flambeau.distributed.simulate._report import MEMORY_KINDS, RankReport
from flambeau.distributed.simulate._stage import Stage
from flambeau.distributed.simulate._work import Model

_MOST_ROWS = 16


@dataclass(frozen=True)
class Result:
    """What a simulated step takes; ``print(result)`` shows a table.

    Args:
        model: what is trained.
        cluster: the hardware.
        plan: how the step is divided.
        layout: the number of ranks along each dimension.
        step: seconds.
        ranks: what the ranks of each class do.
        stages: the layers of each stage.
        classes: the class of each rank.

    Example:
        >>> from flambeau.distributed.simulate import Plan, preset, simulate_step, transformer
        >>> result = simulate_step(transformer("7b"), preset("h100", 8), Plan(schedule="fsdp"))
        >>> result.batch, result.fits
        (8, True)
    """

    model: Model
    cluster: Cluster
    plan: Plan
    layout: Layout
    step: float
    ranks: tuple[RankReport, ...]
    stages: tuple[Stage, ...] = field(repr=False)
    classes: tuple[int, ...] = field(repr=False)

    # --- numbers ---------------------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        """Samples of the step, of all ranks."""
        return self.plan.micro_batch * self.plan.micro_batches * self.layout.data

    def _mean(self, of: Callable[[RankReport], float]) -> float:
        return sum(of(rank) * rank.count for rank in self.ranks) / self.layout.ranks

    @property
    def exposed(self) -> float:
        """Seconds of communication while nothing is computed, as the mean of all ranks."""
        return self._mean(lambda rank: rank.exposed)

    @property
    def bubble(self) -> float:
        """The share of the step in which ranks wait for others, as the mean of all ranks."""
        return self._mean(lambda rank: rank.idle) / self.step if self.step else 0.0

    @property
    def utilisation(self) -> float:
        """Operations of the model, without repetitions, as a share of the peak of all devices."""
        peak = self.cluster.device.rate(self.model.arithmetic) * self.layout.ranks
        return self.model.flops * self.batch / (self.step * peak) if self.step else 0.0

    @property
    def fullest(self) -> RankReport:
        """The ranks with the largest peak of memory."""
        return max(self.ranks, key=lambda rank: rank.peak)

    @property
    def peak(self) -> float:
        """The largest number of bytes of a rank."""
        return self.fullest.peak

    @property
    def fits(self) -> bool:
        """Whether the memory of all ranks suffices."""
        return self.peak <= self.cluster.device.memory

    def memory_of(self, rank: int) -> dict[str, int]:
        """Return the exact bytes of parameters, gradients and optimizer states of a rank after a step.

        Args:
            rank: the rank.
        Returns: kind -> bytes.
        Raises: ValueError for a rank that there is not.
        """
        numbers.count("Result.memory_of", "rank", rank, 0)
        if rank >= self.layout.ranks:
            raise ValueError(f"Result.memory_of: expected a rank below {self.layout.ranks}, got {rank}")
        return self.stages[self.layout.stage(rank)].state(self.layout.shard_of(rank))

    # --- pictures --------------------------------------------------------------------------------------

    def save_timeline(self, path: str | os.PathLike[str]) -> None:
        """Write a picture of the events of each class of ranks, as SVG.

        Args:
            path: the file.
        """
        from flambeau.distributed.simulate._timeline import write_timeline

        write_timeline(self, path)

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events for chrome://tracing and Perfetto; compressed if `path` ends in ``.gz``.

        Args:
            path: the file.
        """
        from flambeau.distributed.simulate._timeline import write_trace

        write_trace(self, path)

    # --- the table -------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield title(self)
        rows = [
            ("step", _time(self.step)),
            ("samples per second", f"{self.batch / self.step:.4g}" if self.step else "-"),
            ("utilisation", f"{self.utilisation:.1%}"),
            ("exposed communication", f"{_time(self.exposed)}, {_share(self.exposed, self.step)}"),
            ("waiting (bubble)", f"{self.bubble:.1%}"),
        ]
        yield from (f"  {name:<24}{text}" for name, text in rows)
        fullest, limit = self.fullest, self.cluster.device.memory
        yield f"memory of rank {fullest.first}, at its peak"
        for kind in MEMORY_KINDS:
            yield f"  {kind:<24}{format_memory(fullest.memory[kind])}"
        verdict = "fits" if self.fits else "does not fit"
        yield f"  {'sum':<24}{format_memory(fullest.peak)} of {format_memory(limit)}: {verdict}"
        if len(self.ranks) > 1:
            yield from self._table_of_ranks()

    def _table_of_ranks(self) -> Iterator[str]:
        head = ("ranks", "first", "stage", "computes", "exposed", "waits", "memory")
        rows = [
            (
                str(rank.count),
                str(rank.first),
                str(rank.stage),
                *(_share(seconds, self.step) for seconds in (rank.busy, rank.exposed, rank.idle)),
                format_memory(rank.peak),
            )
            for rank in self.ranks[:_MOST_ROWS]
        ]
        for row in (head, *rows):
            yield "  " + "".join(f"{cell:>11}" for cell in row)
        if len(self.ranks) > _MOST_ROWS:
            yield f"  and {len(self.ranks) - _MOST_ROWS} more classes of ranks"


def title(result: Result) -> str:
    """Return one line about what was simulated."""
    layout, plan = result.layout, result.plan
    sizes = {"tensor": layout.tensor, "pipeline": layout.stages}
    sizes |= {"copies": layout.copies, "parts": layout.shard} if plan.schedule == "fsdp" else {}
    parts = [f"{name} {size}" for name, size in sizes.items() if size > 1]
    schedule = f"{plan.pipeline_schedule}, " if plan.pipeline > 1 else ""
    return (
        f"{result.model.name} ({result.model.parameters / 1e9:.3g}e9 parameters) on {layout.ranks} ranks of "
        f"{result.cluster.name}: {', '.join([plan.schedule, *parts])}, {schedule}batch {result.batch}"
    )


def _time(seconds: float) -> str:
    return format_time(seconds * 1e6)


def _share(seconds: float, step: float) -> str:
    return f"{seconds / step:.1%}" if step else "-"
