"""What all schedules do: divide arguments, run a table, join results."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flambeau
from flambeau.distributed.pipelining._actions import REDUCE_GRAD, Order, Table, _Action, owners
from flambeau.distributed.pipelining._executor import Executor, Step
from flambeau.distributed.pipelining._lowering import forward_only, with_messages
from flambeau.distributed.pipelining._timeline import check, timed
from flambeau.distributed.pipelining.microbatch import merge_chunks, split_args_kwargs_into_chunks
from flambeau.distributed.pipelining.stage import PipelineStage


class _PipelineSchedule:
    """Base of all schedules; each derived class gives a table of actions.

    Args:
        n_microbatches: how many micro-batches a batch is divided into.
        loss_fn: computes the loss of an output and a target. Default: there are only forward passes.
        args_chunk_spec: the dimension of the batch in each positional argument. Default: 0.
        kwargs_chunk_spec: the dimension of the batch in each keyword argument. Default: 0.
        output_merge_spec: the dimension of the batch in each output. Default: 0.
        scale_grads: whether gradients are divided by the number of micro-batches, for losses that average.
    """

    # A function of the rank, and of the numbers of ranks, stages per rank and micro-batches.
    # None: `_load_csv` gives the table.
    _order: Callable[[int, int, int, int], Order] | None = None

    def __init__(
        self,
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        self._name = type(self).__name__
        if not isinstance(n_microbatches, int) or n_microbatches < 1:
            raise ValueError(f"{self._name}: expected a positive n_microbatches, got {n_microbatches!r}")
        if loss_fn is not None and not callable(loss_fn):
            raise TypeError(f"{self._name}: expected a callable loss_fn, got {type(loss_fn).__name__}")
        self._n_microbatches, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec = output_merge_spec
        self._has_backward = loss_fn is not None
        self._executor: Executor | None = None

    def _use(self, stages: Sequence[PipelineStage]) -> None:
        """Make the table for some stages of this rank."""
        for stage in stages:
            if not isinstance(stage, PipelineStage):
                raise TypeError(f"{self._name}: expected a PipelineStage, got {type(stage).__name__}")
        self._stages = list(stages)
        first = stages[0]
        self.rank, self.pp_group_size, self._num_stages = first.group_rank, first.group_size, first.num_stages
        if any((s.group, s.num_stages) != (first.group, first.num_stages) for s in stages):
            raise ValueError(f"{self._name}: expected stages of one group and one num_stages, got several")
        local = len(stages)
        if local * self.pp_group_size != self._num_stages:
            raise ValueError(
                f"{self._name}: expected {self._num_stages} stages on {self.pp_group_size} ranks, as many on "
                f"each, got {local} on rank {self.rank}"
            )
        ranks, n, order = self.pp_group_size, self._n_microbatches, type(self)._order
        if order is not None:
            self._take_table(timed({rank: order(rank, ranks, local, n) for rank in range(ranks)}))

    def _take_table(self, table: Table, has_messages: bool = False) -> None:
        """Check a table, and prepare to run it."""
        check(table, self._num_stages, self._n_microbatches)
        owner = owners(table)
        own = [stage for stage, rank in owner.items() if rank == self.rank]
        given = sorted(stage.stage_index for stage in self._stages)
        if own != given:
            raise ValueError(f"{self._name}: expected the stages {own} on rank {self.rank}, got {given}")
        self.pipeline_order = table
        self.stage_index_to_group_rank = owner
        orders = table if has_messages else with_messages(table)
        self.pipeline_order_with_comms: Mapping[int, Sequence[_Action | None]] = orders
        self._actions = [action for action in orders[self.rank] if action is not None]
        reduced = {a.stage_index for a in self._actions if a.computation_type is REDUCE_GRAD}
        self._actions += [_Action(index, REDUCE_GRAD) for index in own if index not in reduced]
        self._forward_actions = with_messages(forward_only(table))[self.rank]
        text = ";".join(f"{rank}: {table[rank]}" for rank in sorted(table))
        self._executor = Executor(self._stages, owner, zlib.crc32(text.encode()))

    # --- steps -------------------------------------------------------------------------------------------

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run one batch: forward, and with a `loss_fn` also backward, whose gradients parameters accumulate.

        Args:
            *args: the arguments of the first stage; other ranks need none.
            target: what `loss_fn` compares with, for the rank with the last stage.
            losses: a list that receives the loss of each micro-batch, on the rank with the last stage.
            return_outputs: whether to return the outputs of the last stage.
            loss_kwargs: further arguments of `loss_fn`.
            **kwargs: keyword arguments of the stages of this rank.
        Returns: the outputs on the rank with the last stage; None on others.
        Raises: RuntimeError under `no_grad`, or if a stage raises; DistBackendError if another rank ends;
            ValueError for a batch with fewer elements than micro-batches, or without a target.
        """
        if self._has_backward and not flambeau.is_grad_enabled():
            raise RuntimeError(
                f"{self._name}.step: step() requires gradients to be enabled for backward computation; it "
                "should not be used under no_grad: expected eval(), got step()"
            )
        step = self._prepared("step", args, kwargs, target, losses, loss_kwargs, self._has_backward)
        step.keeps_outputs = return_outputs
        if not self._has_backward:
            self._execute(self._forward_actions, step)
            return self._result(step, losses)
        for stage in self._stages:
            stage.has_backward = True
            stage.gradients.begin()
        try:
            self._execute(self._actions, step)
        except BaseException:
            for stage in self._stages:
                stage.gradients.undo()
            raise
        for stage in self._stages:
            stage.gradients.end(self._n_microbatches if self.scale_grads else 1)
        return self._result(step, losses)

    def eval(self, *args: Any, target: Any = None, losses: list[Any] | None = None, **kwargs: Any) -> Any:
        """Run one batch forward, without gradients.

        Args: As for `step`.
            *args: the arguments of the first stage.
            target: what `loss_fn` compares with.
            losses: a list that receives the loss of each micro-batch.
            **kwargs: keyword arguments of the stages of this rank.
        Returns: as `step`.
        Raises: as `step`.
        """
        step = self._prepared("eval", args, kwargs, target, losses, None, False)
        with flambeau.no_grad():
            self._execute(self._forward_actions, step)
        return self._result(step, losses)

    def _execute(self, actions: Sequence[_Action], step: Step) -> None:
        assert self._executor is not None  # `_prepared` has looked
        try:
            self._executor.run(actions, step)
        except Exception as error:
            error.add_note(f"in {self._name} on rank {self.rank}")
            raise

    def _prepared(
        self,
        call: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Any,
        losses: Any,
        loss_kwargs: dict[str, Any] | None,
        trains: bool,
    ) -> Step:
        name = f"{self._name}.{call}"
        if self._executor is None:
            raise RuntimeError(f"{name}: expected a table of `_load_csv`, got none")
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"{name}: losses must be a list but got a {type(losses)}: expected a list")
        is_last = any(stage.is_last for stage in self._stages)
        if not any(stage.is_first for stage in self._stages):
            args = ()
        if is_last and trains and target is None:
            raise ValueError(f"{name}: expected a target on the rank with the last stage, got None")
        args_of, kwargs_of = self._divided(name, args, kwargs)
        targets = None
        if is_last and target is not None and self._loss_fn is not None:
            targets = [found[0] for found in self._chunks(name, (target,), {}, None, None)[0]]
        return Step(args_of, kwargs_of, targets, self._loss_fn, loss_kwargs or {}, trains, True)

    def _divided(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        return self._chunks(
            name, args, kwargs, self._args_chunk_spec if args else None, self._kwargs_chunk_spec
        )

    def _chunks(self, name: str, args: Any, kwargs: Any, args_spec: Any, kwargs_spec: Any) -> tuple[Any, Any]:
        n = self._n_microbatches
        found = split_args_kwargs_into_chunks(args, kwargs, n, args_spec, kwargs_spec)
        if len(found[0]) != n:
            raise ValueError(
                f"{name}: expected a batch with at least {n} elements, one per micro-batch, got "
                f"{len(found[0])}"
            )
        return found

    def _result(self, step: Step, losses: list[Any] | None) -> Any:
        if losses is not None and any(stage.is_last for stage in self._stages):
            losses[:] = [step.losses[number] for number in sorted(step.losses)]
        if not step.outputs:
            return None
        chunks = [step.outputs[number] for number in range(self._n_microbatches)]
        return merge_chunks(chunks, self._output_merge_spec)
