"""Pipeline parallelism: the layers of a model on several ranks (docs/distributed.md)."""

from flambeau.distributed.pipelining import microbatch, schedules, stage
from flambeau.distributed.pipelining._pipe import Pipe, pipeline
from flambeau.distributed.pipelining._split_points import SplitPoint, pipe_split
from flambeau.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
)
from flambeau.distributed.pipelining.stage import PipelineStage, build_stage

__all__ = [
    "Pipe",
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "SplitPoint",
    "build_stage",
    "pipe_split",
    "pipeline",
]
