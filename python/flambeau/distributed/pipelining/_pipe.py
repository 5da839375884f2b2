"""A traced model as a sequence of stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed.pipelining._split_points import SplitPoint, traced
from flambeau.distributed.pipelining._stage_graphs import StageGraphs, values_that_are_no_tensors
from flambeau.distributed.pipelining.stage import PipelineStage, build_stage
from flambeau.fx import Graph, GraphModule
from flambeau.nn import Module


@dataclass
class PipeInfo:
    """What `build_stage` has to know about a model.

    Attributes:
        graph: the calls of the stages.
        num_stages: how many stages there are.
        has_loss_and_backward: whether the graph has a loss; False.
    """

    graph: Graph
    num_stages: int
    has_loss_and_backward: bool


class Pipe(Module):
    """A model as a sequence of stages, which `pipeline` makes. Its call runs all of them.

    Args:
        split_gm: the model as calls of its stages ``submod_pp_0``, ``submod_pp_1``, ...
        num_stages: how many stages there are.
        has_loss_and_backward: whether `split_gm` computes a loss.
        loss_spec: where the loss is in the result.

    Shape: that of the model.
    Raises: ValueError for a number of stages that `split_gm` does not have.

    Example:
        >>> pipelining = flambeau.distributed.pipelining
        >>> model = flambeau.nn.Sequential(flambeau.nn.Linear(2, 3), flambeau.nn.Linear(3, 1))
        >>> spec = {"1": pipelining.SplitPoint.BEGINNING}
        >>> pipe = pipelining.pipeline(model, (flambeau.ones(4, 2),), split_spec=spec)
        >>> pipe.num_stages, list(pipe.get_stage_module(1).state_dict())
        (2, ['1.weight', '1.bias'])
    """

    def __init__(
        self,
        split_gm: GraphModule,
        num_stages: int,
        has_loss_and_backward: bool = False,
        loss_spec: Any = None,
    ) -> None:
        super().__init__()
        if not hasattr(split_gm, f"submod_pp_{num_stages - 1}"):
            raise ValueError(f"Pipe: expected a split_gm with {num_stages} stages, got fewer")
        self.split_gm, self.num_stages = split_gm, num_stages
        self.has_loss_and_backward, self.loss_spec = has_loss_and_backward, loss_spec

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run all stages in this process."""
        return self.split_gm(*args, **kwargs)

    def get_stage_module(self, stage_idx: int) -> Module:
        """Return the module of a stage.

        Args:
            stage_idx: the stage.
        Raises: ValueError for a stage that does not exist.
        """
        if not isinstance(stage_idx, int) or not 0 <= stage_idx < self.num_stages:
            raise ValueError(
                f"Pipe.get_stage_module: expected a stage from 0 to {self.num_stages - 1}, got {stage_idx}: "
                f"Invalid stage index {stage_idx}!"
            )
        return self.split_gm.get_submodule(f"submod_pp_{stage_idx}")

    def build_stage(
        self, stage_index: int, device: flambeau.device, group: ProcessGroup | None = None
    ) -> PipelineStage:
        """Make a stage for a schedule.

        Args:
            stage_index: the stage.
            device: where it computes; the module is moved there.
            group: the ranks of the pipeline. Default: all.
        Raises: ValueError for a stage that does not exist.
        """
        module = self.get_stage_module(stage_index)
        if all(not parameter.is_meta for parameter in module.parameters()):
            module.to(device)
        return build_stage(module, stage_index, self.info(), device, group)

    def info(self) -> PipeInfo:
        """Return what the function `build_stage` has to know."""
        return PipeInfo(self.split_gm.graph, self.num_stages, self.has_loss_and_backward)

    def print_readable(self) -> None:
        """Print the code of the model and its stages."""
        self.split_gm.print_readable()

    @staticmethod
    def from_tracing(
        mod: Module,
        example_args: tuple[Any, ...],
        example_kwargs: dict[str, Any] | None = None,
        split_policy: Callable[[GraphModule], GraphModule] | None = None,
    ) -> Pipe:
        """Trace a model and split it.

        Args:
            mod: the model.
            example_args: its arguments for one micro-batch.
            example_kwargs: its keyword arguments.
            split_policy: inserts calls of `pipe_split` into the traced model.
        """
        return _split(mod, example_args, example_kwargs or {}, {}, split_policy)


def _split(
    module: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    spec: Mapping[str, SplitPoint],
    policy: Callable[[GraphModule], GraphModule] | None,
) -> Pipe:
    found = traced(module, args, kwargs, spec)
    if policy is not None:
        found = policy(found)
        if not isinstance(found, GraphModule):
            raise TypeError(f"pipeline: expected a GraphModule of split_policy, got {type(found).__name__}")
        found.recompile()
    graphs = StageGraphs(found, values_that_are_no_tensors(found, args, kwargs))
    stages: list[Module] = [graphs.make(number) for number in range(graphs.count)]
    return Pipe(graphs.whole(stages), graphs.count)


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable[[GraphModule], GraphModule] | None = None,
) -> Pipe:
    """Split a model into stages, at calls of `pipe_split` or as one of two arguments says.

    A tracer of `fx` runs the model, so that control flow must not depend on values of tensors. Arguments that
    are no tensors, sizes that a later stage uses, and what forward reads of `self.training` become constants.
    The parameters of the stages are those of the model.

    Args:
        module: the model.
        mb_args: its arguments for one micro-batch.
        mb_kwargs: its keyword arguments.
        split_spec: the path of a submodule -> on which side of it the model is split.
        split_policy: inserts calls of `pipe_split` into the traced model and returns it.
    Returns: the model as a sequence of stages.
    Raises: ValueError for both ways to split, or a parameter that two stages use; AttributeError for a path
        without submodule; TypeError for arguments that the model does not take; TraceError for control flow
        that depends on values.

    Example:
        >>> pipelining = flambeau.distributed.pipelining
        >>> model = flambeau.nn.Sequential(flambeau.nn.Linear(2, 3), flambeau.nn.Linear(3, 1))
        >>> x = flambeau.ones(4, 2)
        >>> pipe = pipelining.pipeline(model, (x,), split_spec={"0": pipelining.SplitPoint.END})
        >>> pipe.num_stages, bool((pipe(x) == model(x)).all())
        (2, True)
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError(
            "pipeline: Cannot specify both `split_spec` and `split_policy`. Please use only one of them: "
            "expected one, got both"
        )
    if isinstance(mb_args, Tensor) or not isinstance(mb_args, tuple | list):
        raise TypeError(f"pipeline: expected a tuple as mb_args, got {type(mb_args).__name__}")
    return _split(module, tuple(mb_args), mb_kwargs or {}, split_spec or {}, split_policy)


for _public in (Pipe, pipeline):
    _public.__module__ = "flambeau.distributed.pipelining"
