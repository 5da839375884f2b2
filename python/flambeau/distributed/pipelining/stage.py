"""A stage of a pipeline: a module, its place, and what it keeps between forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._groups import default_group
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed.pipelining._backward import Gradients, SplitBackward, whole_backward
from flambeau.distributed.pipelining._gradients import StageGradients
from flambeau.distributed.pipelining._layouts import is_dtensor, placed_like
from flambeau.nn import Module
from flambeau.utils._python_dispatch import is_traceable_wrapper_subclass

if TYPE_CHECKING:
    from flambeau.distributed.pipelining._pipe import PipeInfo

__all__ = ["PipelineStage", "build_stage"]


def _as_list(value: Any) -> list[Tensor] | None:
    if value is None:
        return None
    return list(value) if isinstance(value, tuple | list) else [value]


class PipelineStage:
    """A part of a model that one rank of a pipeline computes.

    The tensors that a stage returns are the positional arguments of the next one. Their shapes travel
    with the first micro-batch, so that no stage runs an additional time.

    Args:
        submodule: the part; it returns a tensor, or a tuple or list of tensors.
        stage_index: its place in the model.
        num_stages: how many stages the model has.
        device: where the stage computes.
        input_args: tensors like the arguments for one micro-batch; others raise. Default: any are accepted.
        output_args: tensors like the results for one micro-batch. Default: any are accepted.
        output_grads: tensors like the gradients of the results. Default: any are accepted.
        input_grads: tensors like the gradients of the arguments. Default: any are accepted.
        group: the ranks of the pipeline. Default: all.
        dw_builder: for modules whose backward pass leaves out gradients of weights: called after it, returns
            a function that computes them. Default: autograd computes them.
        get_mesh: for DTensors from stages on other ranks: called with the names and the sizes of the
            dimensions of their mesh, returns the mesh of this stage. Default: stages exchange plain tensors.

    Raises: ValueError for a stage that does not exist; TypeError if `submodule` is not a module.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> layer = flambeau.nn.Linear(3, 1)
        >>> stage = dist.pipelining.PipelineStage(layer, 0, 1, flambeau.device("cpu"))
        >>> schedule = dist.pipelining.ScheduleGPipe(stage, 2, loss_fn=flambeau.nn.functional.mse_loss)
        >>> schedule.step(flambeau.ones(4, 3), target=flambeau.zeros(4, 1)).shape
        flambeau.Size([4, 1])
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: flambeau.device,
        input_args: Tensor | tuple[Tensor, ...] | None = None,
        output_args: Tensor | tuple[Tensor, ...] | None = None,
        output_grads: Tensor | tuple[Tensor | None, ...] | None = None,
        input_grads: Tensor | tuple[Tensor | None, ...] | None = None,
        group: ProcessGroup | None = None,
        dw_builder: Callable[[], Callable[..., None]] | None = None,
        get_mesh: Any = None,
    ) -> None:
        if not isinstance(submodule, Module):
            raise TypeError(f"PipelineStage: expected a Module as submodule, got {type(submodule).__name__}")
        if not 0 <= stage_index < num_stages:
            raise ValueError(
                f"PipelineStage: expected a stage_index from 0 to {num_stages - 1}, got {stage_index}: Stage "
                f"index {stage_index} is out of range of {num_stages}"
            )
        if get_mesh is not None and not callable(get_mesh):
            raise TypeError(f"PipelineStage: expected a callable get_mesh, got {get_mesh!r}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.dw_builder = flambeau.device(device), dw_builder
        self.get_mesh = get_mesh
        self.group = default_group() if group is None else group
        self.group_rank, self.group_size = self.group.rank(), self.group.size()
        self.gradients = StageGradients(submodule)
        self.has_backward = False
        self._like = {
            "arguments": _as_list(input_args),
            "results": _as_list(output_args),
            "gradients of the results": _as_list(output_grads),
            "gradients of the arguments": _as_list(input_grads),
        }
        self.clear_runtime_states()

    def clear_runtime_states(self) -> None:
        """Forget what belongs to micro-batches of a step."""
        self._inputs: dict[int, list[Tensor]] = {}
        self._outputs: dict[int, list[Tensor | None]] = {}
        self._later: dict[int, Callable[[], None]] = {}

    @property
    def is_first(self) -> bool:
        """Whether the arguments of the pipeline are those of this stage."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether the results of the pipeline are those of this stage."""
        return self.stage_index == self.num_stages - 1

    def _check(self, words: str, microbatch: int, found: Sequence[Any]) -> None:
        """Raise RuntimeError if tensors differ from those that the constructor was given."""
        wanted = self._like[words]
        if wanted is None:
            return
        shapes = [None if t is None else (tuple(t.shape), t.dtype) for t in wanted]
        got = [(tuple(t.shape), t.dtype) if isinstance(t, Tensor) else None for t in found]
        if shapes != got:
            raise RuntimeError(
                f"PipelineStage: stage {self.stage_index}, micro-batch {microbatch}: expected {words} like "
                f"{shapes}, got {got}"
            )

    def forward_one_chunk(
        self, fwd_chunk_id: int, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the module for one micro-batch.

        Args:
            fwd_chunk_id: the micro-batch.
            args: its arguments.
            kwargs: its keyword arguments.
        Raises: RuntimeError, which names stage and micro-batch, if the module raises; TypeError if it returns
            what cannot be sent to the next stage.
        """
        self._check("arguments", fwd_chunk_id, args)
        where = f"PipelineStage: stage {self.stage_index}, micro-batch {fwd_chunk_id}"
        try:
            with self.gradients.unreduced():
                result = self.submod(*args, **(kwargs or {}))
        except Exception as error:
            raise RuntimeError(f"{where}: failed to run forward: {type(error).__name__}: {error}") from error
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        if not self.is_last:
            for output in outputs:
                is_known = output is None or is_dtensor(output) or isinstance(output, Tensor)
                is_other = is_traceable_wrapper_subclass(output) and not is_dtensor(output)
                if not is_known or is_other:
                    raise TypeError(
                        f"{where}: expected a plain tensor or a DTensor, or a tuple or list of them, as the "
                        f"result of a stage that another one follows, got {type(output).__name__}"
                    )
        self._check("results", fwd_chunk_id, outputs)
        self._inputs[fwd_chunk_id] = [] if self.is_first else [t for t in args if isinstance(t, Tensor)]
        self._outputs[fwd_chunk_id] = outputs
        return result

    def outputs_of(self, microbatch: int) -> list[Tensor | None]:
        """Return the tensors of a micro-batch that go to the next stage."""
        return self._outputs[microbatch]

    def _state_of(self, microbatch: int, loss: Tensor | None, grads: Gradients | None) -> Any:
        """Return outputs, their gradients, and inputs of a micro-batch, and forget them."""
        outputs, inputs = self._outputs.pop(microbatch), self._inputs.pop(microbatch)
        if self.is_last:
            return [loss], None, inputs
        assert grads is not None
        self._check("gradients of the results", microbatch, grads)
        return [output for output in outputs if output is not None], grads, inputs

    def backward_one_chunk(
        self,
        bwd_chunk_id: int,
        loss: Tensor | None = None,
        full_backward: bool = True,
        last_backward: bool = False,
        grads: Gradients | None = None,
    ) -> Gradients:
        """Compute the gradients of one micro-batch, and return those of the arguments.

        Args:
            bwd_chunk_id: the micro-batch.
            loss: the loss, in the last stage.
            full_backward: also add the gradients of weights; `backward_weight_one_chunk` does so later
                otherwise.
            last_backward: whether no backward pass follows in this step.
            grads: the gradients of the results, in other stages.
        Raises: RuntimeError, which names stage and micro-batch, if autograd raises.
        """
        outputs, given, inputs = self._state_of(bwd_chunk_id, loss, grads)
        is_whole = full_backward or not self.gradients.splits()
        is_complete = is_whole and self.dw_builder is None and not self._later
        self.gradients.before_backward(last_backward, is_complete)
        where = f"PipelineStage: stage {self.stage_index}, micro-batch {bwd_chunk_id}"
        try:
            if full_backward or self.dw_builder is not None or not self.gradients.splits():
                found = whole_backward(outputs, given, inputs)
                if self.dw_builder is not None:
                    self._later[bwd_chunk_id] = self.dw_builder()
                if full_backward and bwd_chunk_id in self._later:
                    self._later.pop(bwd_chunk_id)()
            else:
                split = SplitBackward(outputs, given, inputs)
                found, self._later[bwd_chunk_id] = split.inputs(), split.weights
        except Exception as error:
            raise RuntimeError(f"{where}: failed to run backward: {type(error).__name__}: {error}") from error
        placed = [placed_like(grad, tensor) for grad, tensor in zip(found, inputs, strict=True)]
        self._check("gradients of the arguments", bwd_chunk_id, placed)
        return placed

    def backward_weight_one_chunk(self, bwd_chunk_id: int) -> None:
        """Add the gradients of weights of a micro-batch that `backward_one_chunk` left.

        Args:
            bwd_chunk_id: the micro-batch.
        """
        later = self._later.pop(bwd_chunk_id, None)
        if later is None:
            return
        try:
            later()
        except Exception as error:
            raise RuntimeError(
                f"PipelineStage: stage {self.stage_index}, micro-batch {bwd_chunk_id}: failed to run "
                f"backward for weights: {type(error).__name__}: {error}"
            ) from error

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divide the gradients of the parameters.

        Args:
            grad_scale_factor: the divisor.
        """
        for parameter in self.submod.parameters():
            if parameter.grad is not None and grad_scale_factor != 1:
                parameter.grad.div_(grad_scale_factor)


def build_stage(
    stage_module: Module,
    stage_index: int,
    pipe_info: PipeInfo,
    device: flambeau.device,
    group: ProcessGroup | None = None,
) -> PipelineStage:
    """Make a stage of a module of a `Pipe`.

    Args:
        stage_module: the module, such as a wrapped ``pipe.get_stage_module(stage_index)``.
        stage_index: its place.
        pipe_info: ``pipe.info()``.
        device: where the stage computes.
        group: the ranks of the pipeline. Default: all.
    Returns: the stage.
    Raises: ValueError for a stage that does not exist.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> pipe = dist.pipelining.pipeline(flambeau.nn.Linear(2, 2), (flambeau.ones(1, 2),))
        >>> module = pipe.get_stage_module(0)
        >>> dist.pipelining.build_stage(module, 0, pipe.info(), flambeau.device("cpu")).is_last
        True
        >>> dist.destroy_process_group()
    """
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)


for _public in (PipelineStage, build_stage):
    _public.__module__ = "flambeau.distributed.pipelining"
