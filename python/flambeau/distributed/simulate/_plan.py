"""Plan: how a step is divided among ranks, and Layout: which rank does which part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flambeau.distributed.simulate import _numbers as numbers
from flambeau.distributed.simulate._hardware import bytes_of
from flambeau.distributed.simulate._schedules import PIPELINES

SCHEDULES = ("ddp", "fsdp")
# Optimizer -> states of the size of a parameter, and numbers of four bytes per parameter.
OPTIMIZERS = {"sgd": (0, 0), "momentum": (1, 0), "adamw": (2, 1)}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a training step is divided among ranks.

    Successive ranks are the parts of tensor parallelism, then those of "fsdp", then copies, then the stages
    of the pipeline.

    Args:
        schedule: "ddp": each rank has all parameters, gradients are reduced in buckets during backward.
            "fsdp": each rank keeps a part, groups of layers are gathered before use and their gradients
            reduced after it.
        tensor: ranks that divide each layer.
        pipeline: stages, each of which has successive layers.
        copies: ranks with the same part under "fsdp", which add the parts' gradients (HSDP). Default: 1.
        micro_batch: samples of a micro-batch, per rank with data of its own.
        micro_batches: micro-batches of a step.
        pipeline_schedule: "gpipe", "1f1b", "interleaved" or "zero_bubble".
        chunks: parts of the model in each stage; more than 1 only for "interleaved".
        bucket_cap_mb: MiB of a bucket of "ddp"; the first one has at most 1.
        gradient_as_bucket_view: whether gradients are views of the buckets instead of copies.
        reshard_after_forward: whether "fsdp" frees gathered parameters after forward. Default: True without a
            pipeline, False with one, which then keeps them until the last backward.
        prefetch: groups that "fsdp" gathers while an earlier one computes; 0: none.
        reduce_each: whether gradients are reduced after each micro-batch. Default: True for "fsdp" without a
            pipeline, otherwise only after the last micro-batch.
        reduce_dtype: the dtype in which "fsdp" reduces gradients. Default: that of parameters.
        recompute: whether backward repeats forward of each group instead of keeping its activations.
        sequence_parallel: whether tensor parallelism divides norms and their activations along the sequence.
        optimizer: "sgd", "momentum" or "adamw".
    Raises: ValueError for values out of range, TypeError for other types.

    Example:
        >>> from flambeau.distributed.simulate import Plan
        >>> Plan(schedule="fsdp", tensor=8, micro_batches=4).micro_batch
        1
    """

    schedule: str = "ddp"
    tensor: int = 1
    pipeline: int = 1
    copies: int = 1
    micro_batch: int = 1
    micro_batches: int = 1
    pipeline_schedule: str = "1f1b"
    chunks: int = 1
    bucket_cap_mb: float = 25.0
    gradient_as_bucket_view: bool = False
    reshard_after_forward: bool | None = None
    prefetch: int = 1
    reduce_each: bool | None = None
    reduce_dtype: str | None = None
    recompute: bool = False
    sequence_parallel: bool = False
    optimizer: str = "adamw"

    def __post_init__(self) -> None:
        numbers.choice("Plan", "schedule", self.schedule, SCHEDULES)
        numbers.choice("Plan", "pipeline_schedule", self.pipeline_schedule, PIPELINES)
        numbers.choice("Plan", "optimizer", self.optimizer, tuple(OPTIMIZERS))
        for what in ("tensor", "pipeline", "copies", "micro_batch", "micro_batches", "chunks"):
            numbers.count("Plan", what, getattr(self, what))
        numbers.count("Plan", "prefetch", self.prefetch, 0)
        numbers.number("Plan", "bucket_cap_mb", self.bucket_cap_mb, above=True)
        if self.reduce_dtype is not None:
            bytes_of("Plan", self.reduce_dtype)
        self._check_pipeline()
        if self.schedule == "ddp" and self.copies != 1:
            raise ValueError(f"Plan: expected copies only for fsdp, got {self.copies} for ddp")
        if self.sequence_parallel and self.tensor == 1:
            raise ValueError("Plan: expected tensor of at least 2 for sequence_parallel, got 1")

    def _check_pipeline(self) -> None:
        if self.chunks > 1 and self.pipeline_schedule != "interleaved":
            raise ValueError(f"Plan: expected chunks only for interleaved, got {self.chunks}")
        if self.pipeline_schedule != "interleaved":
            return
        if self.pipeline == 1 or self.chunks == 1:
            raise ValueError(
                f"Plan: expected at least 2 stages and 2 chunks for interleaved, got {self.pipeline} and "
                f"{self.chunks}"
            )
        if self.micro_batches % self.pipeline:
            raise ValueError(
                "Plan: expected micro_batches of a multiple of the stages for interleaved, got "
                f"{self.micro_batches} and {self.pipeline}"
            )

    @property
    def reshards(self) -> bool:
        """Whether gathered parameters are freed after forward."""
        return self.pipeline == 1 if self.reshard_after_forward is None else self.reshard_after_forward

    @property
    def reduces_each(self) -> bool:
        """Whether gradients are reduced after each micro-batch."""
        default = self.schedule == "fsdp" and self.pipeline == 1
        return default if self.reduce_each is None else self.reduce_each

    def layout(self, ranks: int) -> Layout:
        """Return which rank does which part. Raises: ValueError if the ranks can't be divided."""
        parts = self.tensor * self.pipeline * self.copies
        if ranks % parts:
            raise ValueError(
                "Plan: expected ranks of a multiple of tensor * pipeline * copies, got "
                f"{ranks} and {self.tensor} * {self.pipeline} * {self.copies}"
            )
        data = ranks // parts
        if self.schedule == "ddp":
            return Layout(self.tensor, 1, data, self.pipeline)
        return Layout(self.tensor, data, self.copies, self.pipeline)


@dataclass(frozen=True)
class Layout:
    """The number of ranks along each dimension; successive ranks differ in the first one."""

    tensor: int
    shard: int
    copies: int
    stages: int

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.tensor * self.shard * self.copies * self.stages

    @property
    def data(self) -> int:
        """The number of ranks with samples of their own."""
        return self.shard * self.copies

    @property
    def in_stage(self) -> int:
        """The number of ranks in a stage."""
        return self.ranks // self.stages

    def stage(self, rank: int) -> int:
        """Return the stage of a rank."""
        return rank // self.in_stage

    def shard_of(self, rank: int) -> int:
        """Return the number of the part that a rank keeps."""
        return rank // self.tensor % self.shard

    def groups(self) -> Iterator[tuple[str, list[range]]]:
        """Yield each dimension with more than one rank, and the groups of ranks along it."""
        stride = 1
        for name, size in (("tensor", self.tensor), ("shard", self.shard), ("copies", self.copies)):
            if size > 1:
                block = stride * size
                starts = (base + i for base in range(0, self.ranks, block) for i in range(stride))
                yield name, [range(start, start + block, stride) for start in starts]
            stride *= size
