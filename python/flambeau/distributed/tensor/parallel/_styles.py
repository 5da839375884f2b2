"""Plans of tensor parallelism: how the parameters, inputs and outputs of one module are placed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from flambeau import Tensor, nn
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._api import DTensor, distribute_module, distribute_tensor
from flambeau.distributed.tensor._placements import Placement, Replicate, Shard


class ParallelStyle(ABC):
    """How a module is divided; `parallelize_module` applies it.

    Attributes:
        src_data_rank: the place in the mesh whose parameters count; None: each process's own.
    See also: ColwiseParallel, RowwiseParallel

    Example:
        >>> from flambeau.distributed.tensor.parallel import ColwiseParallel, ParallelStyle
        >>> isinstance(ColwiseParallel(), ParallelStyle)
        True
    """

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        """Divide a module, in place."""


def placed(value: Any, mesh: DeviceMesh, before: Placement, after: Placement) -> Any:
    """Return a tensor with a placement; one that is not distributed has the first placement."""
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, [before])
    return value.redistribute(placements=[after])


def _divide(
    module: nn.Module, mesh: DeviceMesh, source: int | None, placement_of: Callable[[str], Placement]
) -> None:
    for name, parameter in list(module.named_parameters(recurse=False)):
        made = distribute_tensor(parameter.detach(), mesh, [placement_of(name)], src_data_rank=source)
        module.register_parameter(name, nn.Parameter(made, parameter.requires_grad))


class _Parallel(ParallelStyle):
    """A style for modules with one input and one output."""

    def __init__(self, input_layout: Placement, output_layout: Placement, use_local_output: bool) -> None:
        self.input_layouts, self.output_layouts = (input_layout,), (output_layout,)
        self.use_local_output = use_local_output

    def _wanted(self, module: nn.Module) -> Placement:
        """Return the placement that the module needs of its input."""
        return Replicate()

    def _placement_of(self, module: nn.Module, name: str) -> Placement:
        """Return the placement of a parameter."""
        return Replicate()

    def _before(self, module: Any, inputs: tuple[Any, ...], mesh: DeviceMesh) -> Any:
        return (placed(inputs[0], mesh, self.input_layouts[0], self._wanted(module)), *inputs[1:])

    def _after(self, module: Any, output: Any, mesh: DeviceMesh) -> Any:
        moved = output.redistribute(placements=self.output_layouts)
        return moved.to_local() if self.use_local_output else moved

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def divide(name: str, part: nn.Module, mesh: DeviceMesh) -> None:
            if part is module:
                _divide(part, mesh, self.src_data_rank, lambda key: self._placement_of(part, key))

        return distribute_module(module, device_mesh, divide, self._before, self._after)


def _supported(name: str, module: nn.Module) -> None:
    if not isinstance(module, nn.Linear | nn.Embedding):
        raise RuntimeError(
            f"{name}: expected nn.Linear or nn.Embedding, got {type(module).__name__}: only nn.Linear and "
            "nn.Embedding are supported"
        )


class ColwiseParallel(_Parallel):
    """Divides the output features of a `Linear`, or the features of an `Embedding`.

    Args:
        input_layouts: the placement of the input; None: `Replicate`.
        output_layouts: the placement of the output; None: `Shard` along the last dimension.
        use_local_output: whether the output is this process's part, instead of a `DTensor`.
    See also: RowwiseParallel

    Example:
        >>> from flambeau.distributed.tensor.parallel import ColwiseParallel
        >>> ColwiseParallel().output_layouts
        (Shard(dim=-1),)
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)

    def _placement_of(self, module: nn.Module, name: str) -> Placement:
        return Shard(0) if isinstance(module, nn.Linear) else Shard(1)

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        _supported("ColwiseParallel", module)
        return super()._apply(module, device_mesh)


class RowwiseParallel(_Parallel):
    """Divides the input features of a `Linear`, or the entries of an `Embedding`; outputs are sums of parts.

    Args:
        input_layouts: the placement of the input; None: `Shard` along the last dimension for a `Linear`,
            `Replicate` for an `Embedding`.
        output_layouts: the placement of the output; None: `Replicate`.
        use_local_output: whether the output is this process's part, instead of a `DTensor`.
    See also: ColwiseParallel

    Example:
        >>> from flambeau.distributed.tensor.parallel import RowwiseParallel
        >>> RowwiseParallel().input_layouts, RowwiseParallel().output_layouts
        ((Shard(dim=-1),), (Replicate(),))
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)

    def _wanted(self, module: nn.Module) -> Placement:
        return Shard(-1) if isinstance(module, nn.Linear) else Replicate()

    def _placement_of(self, module: nn.Module, name: str) -> Placement:
        if isinstance(module, nn.Linear):
            return Shard(1) if name == "weight" else Replicate()
        return Shard(0)

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        _supported("RowwiseParallel", module)
        return super()._apply(module, device_mesh)


class SequenceParallel(_Parallel):
    """Computes on parts of the sequence, with whole parameters: for `LayerNorm`, `RMSNorm` and `Dropout`.

    Args:
        sequence_dim: the dimension of the sequence in the input.
        use_local_output: whether the output is this process's part, instead of a `DTensor`.

    Example:
        >>> from flambeau.distributed.tensor.parallel import SequenceParallel
        >>> SequenceParallel(sequence_dim=0).output_layouts
        (Shard(dim=0),)
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        super().__init__(Shard(sequence_dim), Shard(sequence_dim), use_local_output)

    def _wanted(self, module: nn.Module) -> Placement:
        return self.input_layouts[0]


def _layouts(given: Any) -> tuple[Placement | None, ...]:
    return given if isinstance(given, tuple) else (given,)


def _same_length(name: str, before: Any, after: Any) -> None:
    if len(before) != len(after):
        raise AssertionError(f"{name}: expected as many desired layouts as layouts, got {after} for {before}")


class PrepareModuleInput(ParallelStyle):
    """Moves the inputs of a module.

    Args:
        input_layouts: the placements of the inputs by position; None among them: not a tensor, or left alone.
        desired_input_layouts: the placements that the module needs.
        input_kwarg_layouts: the placements of inputs by name.
        desired_input_kwarg_layouts: the placements that the module needs of inputs by name.
        use_local_output: whether the module gets this process's parts, instead of `DTensor`.
    Raises: AssertionError for different numbers of layouts.

    Example:
        >>> from flambeau.distributed.tensor import Replicate, Shard
        >>> from flambeau.distributed.tensor.parallel import PrepareModuleInput
        >>> PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()).input_layouts
        (Shard(dim=1),)
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = () if input_layouts is None else _layouts(input_layouts)
        self.desired_input_layouts = () if desired_input_layouts is None else _layouts(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        _same_length("PrepareModuleInput", self.input_layouts, self.desired_input_layouts)
        _same_length("PrepareModuleInput", self.input_kwarg_layouts, self.desired_input_kwarg_layouts)

    def _moved(self, value: Any, mesh: DeviceMesh, before: Any, after: Any) -> Any:
        if before is None or not isinstance(value, Tensor):
            return value
        made = placed(value, mesh, before, before if after is None else after)
        return made.to_local() if self.use_local_output else made

    def _before(self, mesh: DeviceMesh, inputs: Any, named: dict[str, Any]) -> Any:
        count = len(self.input_layouts)
        if count and len(inputs) != count:
            raise ValueError(f"PrepareModuleInput: expected {count} inputs by position, got {len(inputs)}")
        pairs = zip(inputs, self.input_layouts, self.desired_input_layouts, strict=False)
        moved = tuple(self._moved(value, mesh, a, b) for value, a, b in pairs) if count else inputs
        layouts, wanted = self.input_kwarg_layouts, self.desired_input_kwarg_layouts
        return moved, {k: self._moved(v, mesh, layouts.get(k), wanted.get(k)) for k, v in named.items()}

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        module.register_forward_pre_hook(
            lambda _, inputs, named: self._before(device_mesh, inputs, named), with_kwargs=True
        )
        return module


class PrepareModuleOutput(ParallelStyle):
    """Moves the outputs of a module.

    Args:
        output_layouts: the placements of the outputs; None among them: left alone.
        desired_output_layouts: the placements that they get.
        use_local_output: whether the outputs are this process's parts, instead of `DTensor`.
    Raises: AssertionError for different numbers of layouts.

    Example:
        >>> from flambeau.distributed.tensor import Replicate, Shard
        >>> from flambeau.distributed.tensor.parallel import PrepareModuleOutput
        >>> PrepareModuleOutput(output_layouts=Shard(1), desired_output_layouts=Replicate()).use_local_output
        True
    """

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        self.output_layouts = _layouts(output_layouts)
        self.desired_output_layouts = _layouts(desired_output_layouts)
        self.use_local_output = use_local_output
        _same_length("PrepareModuleOutput", self.output_layouts, self.desired_output_layouts)

    def _after(self, mesh: DeviceMesh, outputs: Any) -> Any:
        several = isinstance(outputs, tuple)
        values = outputs if several else (outputs,)
        if len(values) != len(self.output_layouts):
            raise ValueError(
                f"PrepareModuleOutput: expected {len(self.output_layouts)} outputs, got {len(values)}"
            )
        moved = []
        for value, before, after in zip(
            values, self.output_layouts, self.desired_output_layouts, strict=True
        ):
            made = value if before is None else placed(value, mesh, before, after or before)
            moved.append(made.to_local() if self.use_local_output and isinstance(made, DTensor) else made)
        return tuple(moved) if several else moved[0]

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        module.register_forward_hook(lambda _, inputs, outputs: self._after(device_mesh, outputs))
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Moves the inputs and outputs of a module: `PrepareModuleInput` and `PrepareModuleOutput` together.

    Args:
        input_layouts: the placements of the inputs by position; None among them: not a tensor, or left alone.
        desired_input_layouts: the placements that the module needs.
        input_kwarg_layouts: the placements of inputs by name.
        desired_input_kwarg_layouts: the placements that the module needs of inputs by name.
        use_local_input: whether the module gets this process's parts, instead of `DTensor`.
        output_layouts: the placements of the outputs; None among them: left alone.
        desired_output_layouts: the placements that they get.
        use_local_output: whether the outputs are this process's parts, instead of `DTensor`.

    Example:
        >>> from flambeau.distributed.tensor import Replicate, Shard
        >>> from flambeau.distributed.tensor.parallel import PrepareModuleInputOutput
        >>> layouts = {"input_layouts": Shard(1), "desired_input_layouts": Replicate()}
        >>> style = PrepareModuleInputOutput(
        ...     **layouts, output_layouts=Replicate(), desired_output_layouts=Shard(1)
        ... )
        >>> style.prepare_module_input.use_local_output
        False
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
