"""Runs the actions of one rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flambeau import Tensor
from flambeau.distributed.pipelining._actions import (
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    FULL_BACKWARD,
    MESSAGES,
    RECV_B,
    RECV_F,
    REDUCE_GRAD,
    RESHARD,
    SEND_B,
    SEND_F,
    UNSHARD,
    _Action,
    parts_of,
)
from flambeau.distributed.pipelining._gradient_wire import GradientInbox, GradientOutbox
from flambeau.distributed.pipelining._layouts import gradient_like
from flambeau.distributed.pipelining._wire import Batch, Described, Inbox, Outbox, Peer, described
from flambeau.distributed.pipelining.stage import PipelineStage
from flambeau.utils._pytree import tree_flatten, tree_map_only

_TAGS = 4  # of one stage: two per direction


@dataclass
class Step:
    """What one call of `step` or `eval` is about.

    Attributes:
        args: the arguments of each micro-batch.
        kwargs: the keyword arguments of each micro-batch.
        targets: the target of each micro-batch, or None.
        loss_fn: computes the loss of an output and a target; None: there is no loss.
        loss_kwargs: further arguments of it.
        trains: whether gradients are computed.
        keeps_outputs: whether the results of the last stage are returned.
    """

    args: Sequence[tuple[Any, ...]]
    kwargs: Sequence[dict[str, Any]]
    targets: Sequence[Any] | None
    loss_fn: Callable[..., Any] | None
    loss_kwargs: dict[str, Any]
    trains: bool
    keeps_outputs: bool
    outputs: dict[int, Any] = field(default_factory=dict)
    losses: dict[int, Any] = field(default_factory=dict)
    signatures: dict[int, Any] = field(default_factory=dict)

    def signature(self, is_first: bool) -> Any:
        """Return the shapes of the arguments that a stage gets from its own rank."""
        if is_first not in self.signatures:
            leaves, structure = tree_flatten([self.args if is_first else (), self.kwargs])
            shapes = tuple(described(one) if isinstance(one, Tensor) else type(one) for one in leaves)
            self.signatures[is_first] = (shapes, str(structure))
        return self.signatures[is_first]


class Executor:
    """Runs the actions of one rank of a schedule.

    Args:
        stages: the stages of this rank.
        owner: stage -> rank in the group.
        table: a checksum of the schedule's table.
    """

    def __init__(self, stages: Sequence[PipelineStage], owner: Mapping[int, int], table: int) -> None:
        self._stages = {stage.stage_index: stage for stage in stages}
        self._owner, self._table = owner, table
        self._outboxes: dict[int, Outbox] = {}  # by the stage of this rank
        self._inboxes: dict[int, Inbox] = {}
        self._gradient_outboxes: dict[int, GradientOutbox] = {}
        self._gradient_inboxes: dict[int, GradientInbox] = {}
        for index, stage in self._stages.items():
            if owner.get(index + 1, owner[index]) != owner[index]:
                self._outboxes[index] = Outbox(self._peer(stage, index + 1, True))
                self._gradient_inboxes[index] = GradientInbox(self._peer(stage, index + 1, False))
            if owner.get(index - 1, owner[index]) != owner[index]:
                self._inboxes[index] = Inbox(self._peer(stage, index - 1, False))
                self._gradient_outboxes[index] = GradientOutbox(self._peer(stage, index - 1, True))
        self._run: dict[Any, Callable[[_Action], None]] = {
            FORWARD: self._forward,
            FULL_BACKWARD: self._backward,
            BACKWARD_INPUT: self._backward,
            BACKWARD_WEIGHT: self._weights,
            SEND_F: self._send,
            SEND_B: self._send_gradients,
            RECV_F: self._receive,
            RECV_B: self._receive_gradients,
            UNSHARD: lambda action: self._stages[action.stage_index].gradients.set_whole(True),
            RESHARD: lambda action: self._stages[action.stage_index].gradients.set_whole(False),
            REDUCE_GRAD: lambda action: self._stages[action.stage_index].gradients.reduce(),
        }

    def _peer(self, stage: PipelineStage, other: int, to_other: bool) -> Peer:
        index = stage.stage_index
        source, target = (index, other) if to_other else (other, index)
        tag = _TAGS * source + (0 if target > source else 2)
        what = "output" if target > source else "gradients"
        verb = "sending to" if to_other else "receiving from"
        words = f"PipelineStage: stage {index}: {verb} rank {self._owner[other]} the {what} of stage {source}"
        mesh = stage.get_mesh
        return Peer(stage.group, self._owner[other], tag, words, stage.device, self._table, mesh)

    def run(self, actions: Sequence[_Action], step: Step) -> None:
        """Run the actions of a step in order.

        Args:
            actions: the actions, with messages.
            step: the arguments; receives outputs and losses.
        Raises: what a stage or a message raises, with the stage and the micro-batch.
        """
        self._step, self._batch = step, Batch()
        self._arrived: dict[tuple[int, bool, int], list[Tensor | None]] = {}  # from stages of this rank
        self._sends: dict[tuple[int, bool, int], list[Tensor | None]] = {}
        self._results: dict[int, dict[int, list[Described]]] = {index: {} for index in self._stages}
        self._arguments: dict[tuple[int, int], list[Described]] = {}
        backwards = [a for a in parts_of(actions) if a.computation_type in (FULL_BACKWARD, BACKWARD_INPUT)]
        self._last = {action.stage_index: action.microbatch_index for action in backwards}
        try:
            for action in parts_of(actions):
                if action.computation_type not in MESSAGES:
                    self._batch.start()
                self._run[action.computation_type](action)
            self._batch.start()
            for outbox in self._outboxes.values():
                outbox.finish()
            for gradients in self._gradient_outboxes.values():
                gradients.finish()
        finally:
            for outbox in self._outboxes.values():
                outbox.reset()
            for inbox in self._inboxes.values():
                inbox.reset()
            for arriving in self._gradient_inboxes.values():
                arriving.reset()
            for stage in self._stages.values():
                stage.clear_runtime_states()
            del self._step, self._arrived, self._sends, self._results, self._arguments

    # --- messages ----------------------------------------------------------------------------------------

    def _send(self, action: _Action) -> None:
        index, microbatch = action.stage_index, _number(action)
        outbox = self._outboxes[index]
        outbox.drop_ended()
        tensors = self._sends.pop((index, True, microbatch))
        outbox.send(self._batch, microbatch, tensors, self._context(index), self._step.trains)

    def _send_gradients(self, action: _Action) -> None:
        index, microbatch = action.stage_index, _number(action)
        outbox = self._gradient_outboxes[index]
        outbox.drop_ended()
        wanted = self._arguments.pop((index, microbatch))
        outbox.send(self._batch, wanted, self._sends.pop((index, False, microbatch)))

    def _context(self, index: int) -> Any:
        """Return what the shapes of a stage's results depend on."""
        if index not in self._inboxes and index > 0:
            return self._context(index - 1)  # on the same rank
        arriving = None if index == 0 else self._inboxes[index].number
        return arriving, self._step.signature(index == 0)

    def _receive(self, action: _Action) -> None:
        self._inboxes[action.stage_index].expect(self._batch, _number(action))

    def _receive_gradients(self, action: _Action) -> None:
        index = action.stage_index
        self._gradient_inboxes[index].expect(self._batch, _number(action), self._results[index])

    def _taken(self, index: int, microbatch: int) -> list[Tensor | None]:
        """Return the arguments of a stage."""
        inbox = self._inboxes.get(index)
        if inbox is None:
            return self._arrived.pop((index, True, microbatch))
        tensors = inbox.take(microbatch, self._step.trains)
        self._arguments[index, microbatch] = [described(t) for t in tensors if t is not None]
        return tensors

    def _taken_gradients(self, index: int, microbatch: int) -> list[Tensor | None]:
        """Return the gradients of the results of a stage."""
        inbox = self._gradient_inboxes.get(index)
        if inbox is None:
            return self._arrived.pop((index, False, microbatch))
        grads = inbox.take(microbatch, self._results[index])
        del self._results[index][microbatch]
        results = [tensor for tensor in self._stages[index].outputs_of(microbatch) if tensor is not None]
        return [gradient_like(grad, tensor) for grad, tensor in zip(grads, results, strict=True)]

    def _pass_on(self, index: int, forward: bool, microbatch: int, tensors: Sequence[Tensor | None]) -> None:
        """Give tensors to a neighbour, or keep them until they are sent."""
        if index in (self._outboxes if forward else self._gradient_outboxes):
            self._sends[index, forward, microbatch] = list(tensors)
            return
        if forward:
            tensors = [
                None if t is None else t.detach().requires_grad_(t.requires_grad and self._step.trains)
                for t in tensors
            ]
        to = index + (1 if forward else -1)
        self._arrived[to, forward, microbatch] = list(tensors)

    # --- computations ------------------------------------------------------------------------------------

    def _forward(self, action: _Action) -> None:
        stage, microbatch, step = self._stages[action.stage_index], _number(action), self._step
        if stage.is_first:
            args = tuple(step.args[microbatch])
        else:
            args = tuple(self._taken(stage.stage_index, microbatch))
        result = stage.forward_one_chunk(microbatch, args, step.kwargs[microbatch])
        if not stage.is_last:
            results = stage.outputs_of(microbatch)
            self._results[stage.stage_index][microbatch] = [described(t) for t in results]
            self._pass_on(stage.stage_index, True, microbatch, results)
            return
        if step.keeps_outputs:
            step.outputs[microbatch] = detached(result) if step.trains else result
        if step.loss_fn is not None and step.targets is not None:
            step.losses[microbatch] = self._loss(result, microbatch)

    def _loss(self, result: Any, microbatch: int) -> Any:
        step = self._step
        assert step.loss_fn is not None and step.targets is not None
        try:
            loss = step.loss_fn(result, step.targets[microbatch], **step.loss_kwargs)
        except Exception as error:
            error.add_note(f"in loss_fn for stage {max(self._stages)}, micro-batch {microbatch}")
            raise
        if step.trains and not (isinstance(loss, Tensor) and loss.numel() == 1):
            got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise RuntimeError(
                f"PipelineStage: stage {max(self._stages)}, micro-batch {microbatch}: expected a loss_fn "
                f"that returns a tensor with one element, got {got}"
            )
        return loss

    def _backward(self, action: _Action) -> None:
        stage, microbatch = self._stages[action.stage_index], _number(action)
        loss = grads = None
        if stage.is_last:
            loss = self._step.losses[microbatch]
            self._step.losses[microbatch] = loss.detach()
            if not loss.requires_grad:
                raise RuntimeError(
                    f"PipelineStage: stage {stage.stage_index}, micro-batch {microbatch}: expected a loss "
                    "that requires a gradient, got one that does not require grad and does not have a grad_fn"
                )
        else:
            grads = self._taken_gradients(stage.stage_index, microbatch)
        found = stage.backward_one_chunk(
            microbatch,
            loss,
            full_backward=action.computation_type is FULL_BACKWARD,
            last_backward=self._last[stage.stage_index] == microbatch,
            grads=grads,
        )
        if not stage.is_first:
            self._pass_on(stage.stage_index, False, microbatch, found)

    def _weights(self, action: _Action) -> None:
        self._stages[action.stage_index].backward_weight_one_chunk(_number(action))


def _number(action: _Action) -> int:
    assert action.microbatch_index is not None, action
    return action.microbatch_index


def detached(value: Any) -> Any:
    """Return tensors without their graph."""
    return tree_map_only(Tensor, lambda tensor: tensor.detach(), value)
