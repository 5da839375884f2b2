"""Schedules: in which order the ranks of a pipeline compute (docs/distributed.md).

Each schedule is an order of actions per rank (`_orders`); `_lowering` adds messages; `_executor` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from flambeau.distributed.pipelining import _orders
from flambeau.distributed.pipelining._actions import BACKWARD_INPUT as BACKWARD_INPUT
from flambeau.distributed.pipelining._actions import BACKWARD_WEIGHT as BACKWARD_WEIGHT
from flambeau.distributed.pipelining._actions import FORWARD as FORWARD
from flambeau.distributed.pipelining._actions import FULL_BACKWARD as FULL_BACKWARD
from flambeau.distributed.pipelining._actions import OVERLAP_F_B as OVERLAP_F_B
from flambeau.distributed.pipelining._actions import RECV_B as RECV_B
from flambeau.distributed.pipelining._actions import RECV_F as RECV_F
from flambeau.distributed.pipelining._actions import REDUCE_GRAD as REDUCE_GRAD
from flambeau.distributed.pipelining._actions import RESHARD as RESHARD
from flambeau.distributed.pipelining._actions import SEND_B as SEND_B
from flambeau.distributed.pipelining._actions import SEND_F as SEND_F
from flambeau.distributed.pipelining._actions import UNSHARD as UNSHARD
from flambeau.distributed.pipelining._actions import _Action as _Action
from flambeau.distributed.pipelining._actions import _ComputationType as _ComputationType
from flambeau.distributed.pipelining._base import _PipelineSchedule
from flambeau.distributed.pipelining._lowering import read_csv, write_csv
from flambeau.distributed.pipelining.stage import PipelineStage

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "get_schedule_class",
]
F, B, I, W = FORWARD, FULL_BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT  # noqa: E741


class PipelineScheduleSingle(_PipelineSchedule):
    """Base of schedules with one stage per rank.

    Args:
        stage: the stage of this rank.
        n_microbatches: how many micro-batches a batch is divided into.
        loss_fn: computes the loss of an output and a target. Default: there are only forward passes.
        args_chunk_spec: the dimension of the batch in each positional argument. Default: 0.
        kwargs_chunk_spec: the dimension of the batch in each keyword argument. Default: 0.
        output_merge_spec: the dimension of the batch in each output. Default: 0.
        scale_grads: whether gradients are divided by the number of micro-batches, for losses that average.

    Raises: TypeError for what is no stage; ValueError for numbers that do not fit together.

    Example:
        >>> from flambeau.distributed.pipelining import schedules
        >>> issubclass(schedules.Schedule1F1B, schedules.PipelineScheduleSingle)
        True
    """

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        super().__init__(
            n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )
        self._use([stage])
        self._stage = stage


class PipelineScheduleMulti(_PipelineSchedule):
    """Base of schedules with several stages per rank; by itself it runs a table of `_load_csv`.

    Args: As for `PipelineScheduleSingle`, and
        stages: the stages of this rank, in order.
        n_microbatches: how many micro-batches a batch is divided into.
        loss_fn: computes the loss of an output and a target. Default: there are only forward passes.
        args_chunk_spec: the dimension of the batch in each positional argument. Default: 0.
        kwargs_chunk_spec: the dimension of the batch in each keyword argument. Default: 0.
        output_merge_spec: the dimension of the batch in each output. Default: 0.
        use_full_backward: has no effect: the schedule says where backward passes are split.
        scale_grads: whether gradients are divided by the number of micro-batches, for losses that average.
        backward_requires_autograd: must be True: autograd computes the gradients.

    Raises: TypeError for what is no list of stages; ValueError for numbers that do not fit together.

    Example:
        >>> from flambeau.distributed.pipelining import schedules
        >>> issubclass(schedules.ScheduleLoopedBFS, schedules.PipelineScheduleMulti)
        True
    """

    _stages_per_rank: int | None = None  # None: any number

    def __init__(
        self,
        stages: Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        use_full_backward: bool | None = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
    ) -> None:
        super().__init__(
            n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )
        if not isinstance(stages, list | tuple) or not stages:
            raise TypeError(f"{self._name}: expected a list of stages, got {stages!r}")
        if not backward_requires_autograd:
            raise ValueError(f"{self._name}: expected backward_requires_autograd=True, got False")
        wanted = self._stages_per_rank
        if wanted is not None and len(stages) != wanted:
            raise ValueError(
                f"{self._name}: requires exactly {wanted} stages per rank: expected them, got {len(stages)}"
            )
        self._use(stages)

    def _check_format(self, format: str) -> None:
        if format not in ("compute_only", "compute_comms"):
            raise ValueError(f"{self._name}: expected format compute_only or compute_comms, got {format!r}")

    def _load_csv(
        self, filename: str, format: Literal["compute_only", "compute_comms"] = "compute_only"
    ) -> None:
        """Run another table: one row per rank with actions such as ``2F0``.

        Args:
            filename: the file.
            format: whether the table has messages, too.
        Raises: ValueError if the table is no schedule of these stages and micro-batches.
        """
        self._check_format(format)
        table = read_csv(filename)
        if sorted(table) != list(range(self.pp_group_size)):
            raise ValueError(f"{self._name}: expected {self.pp_group_size} rows, got {len(table)}")
        self._take_table(table, format == "compute_comms")

    def _dump_csv(
        self, filename: str, format: Literal["compute_only", "compute_comms"] = "compute_comms"
    ) -> None:
        """Write the table that `_load_csv` reads.

        Args:
            filename: the file.
            format: whether to write messages, too.
        """
        self._check_format(format)
        table = self.pipeline_order if format == "compute_only" else self.pipeline_order_with_comms
        write_csv(table, filename)


class _PipelineScheduleRuntime(PipelineScheduleMulti):
    """Base of the schedules with several stages per rank; by itself it runs a table of `_load_csv`."""

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
    ) -> None:
        chunks = args_chunk_spec, kwargs_chunk_spec, output_merge_spec
        super().__init__(
            stages, n_microbatches, loss_fn, *chunks, None, scale_grads, backward_requires_autograd
        )


class ScheduleGPipe(PipelineScheduleSingle):
    """Schedule of all forward passes, then all backward passes.

    Args: As for `PipelineScheduleSingle`.
    Raises: as the base.
    Source: Huang et al. 2019, arXiv:1811.06965.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> cpu, layer = flambeau.device("cpu"), flambeau.nn.Linear(2, 2)
        >>> stage = dist.pipelining.PipelineStage(layer, 0, 1, cpu)
        >>> dist.pipelining.ScheduleGPipe(stage, 2).pipeline_order[0]
        [0F0, 0F1, 0B0, 0B1]
        >>> dist.destroy_process_group()
    """

    _order = staticmethod(_orders.gpipe)


class Schedule1F1B(PipelineScheduleSingle):
    """Schedule of one forward and one backward pass in turn, after as few forward passes as possible.

    Args: As for `PipelineScheduleSingle`.
    Raises: as the base; ValueError for fewer micro-batches than stages.
    Source: Narayanan et al. 2021, arXiv:2104.04473 (PipeDream-Flush).

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> cpu, layer = flambeau.device("cpu"), flambeau.nn.Linear(2, 2)
        >>> stage = dist.pipelining.PipelineStage(layer, 0, 1, cpu)
        >>> dist.pipelining.Schedule1F1B(stage, 2).pipeline_order[0]
        [0F0, 0B0, 0F1, 0B1]
        >>> dist.destroy_process_group()
    """

    _order = staticmethod(_orders.one_f_one_b)


class ScheduleInterleaved1F1B(_PipelineScheduleRuntime):
    """Schedule of one forward and one backward pass in turn, with several stages per rank.

    Args: As for `PipelineScheduleMulti`, and
        defer_pp_recv: has no effect: receives are posted one computation ahead.
    Raises: as the base; ValueError if the micro-batches cannot be divided into rounds of equal size.
    Source: Narayanan et al. 2021, arXiv:2104.04473, section 2.2.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> cpu, layer = flambeau.device("cpu"), flambeau.nn.Linear(2, 2)
        >>> stages = [dist.pipelining.PipelineStage(layer, i, 2, cpu) for i in range(2)]
        >>> dist.pipelining.ScheduleInterleaved1F1B(stages, 2).pipeline_order[0]
        [0F0, 1F0, 1B0, 0F1, 0B0, 1F1, 1B1, 0B1]
        >>> dist.destroy_process_group()
    """

    _order = staticmethod(_orders.interleaved)


class ScheduleLoopedBFS(_PipelineScheduleRuntime):
    """Schedule of all micro-batches of one local stage, then those of the next one.

    Args: As for `PipelineScheduleMulti`, and
        defer_pp_recv: has no effect: receives are posted one computation ahead.
    Raises: as the base.
    Source: Lamy-Poirier 2022, arXiv:2211.05953.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> cpu, layer = flambeau.device("cpu"), flambeau.nn.Linear(2, 2)
        >>> stages = [dist.pipelining.PipelineStage(layer, i, 2, cpu) for i in range(2)]
        >>> dist.pipelining.ScheduleLoopedBFS(stages, 2).pipeline_order[0]
        [0F0, 0F1, 1F0, 1F1, 1B1, 1B0, 0B1, 0B0]
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
    ) -> None:
        required = backward_requires_autograd
        super().__init__(
            stages, n_microbatches, loss_fn, None, None, output_merge_spec, scale_grads, required
        )

    _order = staticmethod(_orders.looped_breadth_first)


class ScheduleInterleavedZeroBubble(_PipelineScheduleRuntime):
    """Interleaved schedule whose gradients of weights fill the time in which a rank would wait.

    Args: As for `PipelineScheduleMulti`, and
        defer_pp_recv: has no effect: receives are posted one computation ahead.
    Raises: as the base; ValueError if the micro-batches cannot be divided into rounds of equal size.
    Source: Qi et al. 2023, arXiv:2401.10241 (ZB-H1).

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> cpu, layer = flambeau.device("cpu"), flambeau.nn.Linear(2, 2)
        >>> stages = [dist.pipelining.PipelineStage(layer, i, 2, cpu) for i in range(2)]
        >>> dist.pipelining.ScheduleInterleavedZeroBubble(stages, 2).pipeline_order[0]
        [0F0, 1F0, 1I0, 1W0, 0F1, 0I0, 0W0, 1F1, 1I1, 1W1, 0I1, 0W1]
        >>> dist.destroy_process_group()
    """

    _order = staticmethod(_orders.interleaved_zero_bubble)


class ScheduleZBVZeroBubble(_PipelineScheduleRuntime):
    """Schedule of two stages per rank in the shape of a V, without waiting once a rank has begun.

    Args: As for `PipelineScheduleMulti`, and
        defer_pp_recv: has no effect: receives are posted one computation ahead.
    Raises: as the base; ValueError unless there are two stages per rank.
    Source: Qi et al. 2023, arXiv:2401.10241; Qi et al. 2024, arXiv:2405.15362 (ZB-V).

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> cpu, layer = flambeau.device("cpu"), flambeau.nn.Linear(2, 2)
        >>> stages = [dist.pipelining.PipelineStage(layer, i, 2, cpu) for i in range(2)]
        >>> dist.pipelining.ScheduleZBVZeroBubble(stages, 2).pipeline_order[0]
        [0F0, 1F0, 1I0, 1W0, 0F1, 0I0, 0W0, 1F1, 1I1, 1W1, 0I1, 0W1]
        >>> dist.destroy_process_group()
    """

    _stages_per_rank = 2

    _order = staticmethod(_orders.zero_bubble_v)


class ScheduleDualPipeV(_PipelineScheduleRuntime):
    """Schedule of two stages per rank in the shape of a V, with pairs of a forward and a backward pass.

    Args: As for `PipelineScheduleMulti`, and
        defer_pp_recv: has no effect: receives are posted one computation ahead.
    Raises: as the base; ValueError for other than two stages per rank, or fewer micro-batches than stages.
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1, cut in half.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> cpu, layer = flambeau.device("cpu"), flambeau.nn.Linear(2, 2)
        >>> stages = [dist.pipelining.PipelineStage(layer, i, 2, cpu) for i in range(2)]
        >>> dist.pipelining.ScheduleDualPipeV(stages, 2).pipeline_order[0]
        [0F0, 1F0, 0F1, 1B0, (1F1;0B0)OVERLAP_F_B, 1B1, 0I1, 0W1]
        >>> dist.destroy_process_group()
    """

    _stages_per_rank = 2

    _order = staticmethod(_orders.dual_pipe_v)


_BY_NAME: dict[str, type[_PipelineSchedule]] = {
    "1F1B": Schedule1F1B,
    "Interleaved1F1B": ScheduleInterleaved1F1B,
    "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS,
    "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
    "PipelineScheduleSingle": PipelineScheduleSingle,
    "PipelineScheduleMulti": PipelineScheduleMulti,
    "ZBVZeroBubble": ScheduleZBVZeroBubble,
    "DualPipeV": ScheduleDualPipeV,
}


def get_schedule_class(schedule_name: str) -> type[_PipelineSchedule]:
    """Return the class of a schedule.

    Args:
        schedule_name: such as "1F1B" or "Interleaved1F1B", in any case.
    Returns: the class.
    Raises: ValueError for another name.

    Example:
        >>> flambeau.distributed.pipelining.schedules.get_schedule_class("gpipe").__name__
        'ScheduleGPipe'
    """
    found = {name.lower(): made for name, made in _BY_NAME.items()}.get(str(schedule_name).lower())
    if found is None:
        raise ValueError(
            f"get_schedule_class: Unknown schedule name {schedule_name!r}. The valid options are "
            f"{list(_BY_NAME)}: expected one of them, got {schedule_name!r}"
        )
    return found
