"""fully_shard: divides the parameters of a module among processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau
from flambeau.distributed._groups import get_world_size, is_initialized
from flambeau.distributed._init import init_process_group
from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.fsdp._group import ParameterGroup
from flambeau.distributed.fsdp._layout import Layout, joined, layout_of, smaller
from flambeau.distributed.fsdp._module import FSDPModule
from flambeau.distributed.fsdp._parameter import Place, ShardedParameter
from flambeau.distributed.fsdp._policies import MixedPrecisionPolicy, OffloadPolicy
from flambeau.distributed.fsdp._state import ModuleState, state_of
from flambeau.distributed.tensor import DTensor, Shard
from flambeau.nn.modules.module import Module

__all__ = ["fully_shard"]

_AS_THEY_ARE, _NO_OFFLOAD = MixedPrecisionPolicy(), OffloadPolicy()
_classes: dict[type, type] = {}  # class of a module -> that of sharded ones


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Shard | None] | None = None,
    mp_policy: MixedPrecisionPolicy = _AS_THEY_ARE,
    offload_policy: OffloadPolicy = _NO_OFFLOAD,
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: None = None,
) -> Any:
    """Divide the parameters of a module among processes, so that each keeps a part of them.

    The parameters become `DTensor` objects, and the class of the module a subclass of `FSDPModule`. Before
    forward, one collective gathers the whole parameters of a module; they are freed afterwards, and gathered
    again for backward, which then adds the gradients over all processes and leaves each the gradients of its
    parts. An optimizer made afterwards works on parts. Parameters inside a module to which the function was
    applied before belong to that one: apply it to the layers of a model first, then to the model.

    Args:
        module: the module, or several that are gathered together; changed in place.
        mesh: the processes. One dimension: each has a part. Two dimensions, with names: parts along the
            second, copies along the first. None: all processes.
        reshard_after_forward: whether forward frees the whole parameters at its end; a number, which divides
            that of the processes: keep parts on so many processes each. None: True except for the root.
        shard_placement_fn: called with each parameter; returns the `Shard` that says along which dimension to
            divide it, or None for the first. Except along the first, parts must be equal.
        mp_policy: the dtypes of computation and communication.
        offload_policy: no effect, as parameters are in the memory of the host.
        ignored_params: parameters that stay as they are, and whose gradients are not reduced.
        dp_mesh_dims: not supported; None.
    Returns: `module`.
    Raises: ValueError for a wrong mesh or option, or a parameter without dimensions; AssertionError if it was
        applied before; NotImplementedError for parameters that are not contiguous; RuntimeError for a
        `DTensor` that is not on other dimensions of the parent of `mesh`.
    Source: Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel"; Rajbhandari
        et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models".
    See also: distributed.tensor.DTensor, nn.parallel.DistributedDataParallel

    Example:
        >>> from flambeau.distributed.fsdp import fully_shard
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = flambeau.nn.Sequential(flambeau.nn.Linear(2, 2), flambeau.nn.Linear(2, 1))
        >>> for layer in model:
        ...     layer = fully_shard(layer)
        >>> model = fully_shard(model)
        >>> model(flambeau.ones(3, 2)).sum().backward()
        >>> model[1].bias.grad.full_tensor()
        tensor([3.])
        >>> dist.destroy_process_group()
    """
    modules = tuple(module) if isinstance(module, list | tuple) else (module,)
    _check_modules(modules)
    if dp_mesh_dims is not None:
        raise ValueError(f"fully_shard: expected None as dp_mesh_dims, got {dp_mesh_dims!r}")
    layout = layout_of(_world() if mesh is None else mesh)
    reshards, smaller_layout = _reshards(reshard_after_forward, layout)
    places = _places(modules, set() if ignored_params is None else ignored_params)
    for parameter, where in places.items():
        _check_parameter(where[0][1], parameter)
    dims = {parameter: _dim_of(parameter, shard_placement_fn, layout) for parameter in places}
    if smaller_layout is not None and any(isinstance(parameter, DTensor) for parameter in places):
        raise ValueError(
            "fully_shard: expected a bool as reshard_after_forward for parameters that are DTensors already, "
            f"got {reshard_after_forward}"
        )
    state = ModuleState(modules, mp_policy)
    if places:
        parameters = [
            ShardedParameter(parameter, where, layout, dims[parameter], smaller_layout)
            for parameter, where in places.items()
        ]
        for parameter in places:
            vars(parameter)["_is_sharded_elsewhere"] = True
        state.group = ParameterGroup(parameters, layout, mp_policy, reshards, smaller_layout)
        _watch_state_dicts(state.group)
    for each in modules:
        each.__class__ = _class_of(type(each))
    return module


fully_shard.__module__ = "flambeau.distributed.fsdp"


def _world() -> DeviceMesh:
    if not is_initialized():
        init_process_group()
    return init_device_mesh("cpu", (get_world_size(),))


def _check_modules(modules: Sequence[Any]) -> None:
    if not modules:
        raise ValueError("fully_shard: expected a module, got an empty list")
    for module in modules:
        if not isinstance(module, Module):
            raise TypeError(f"fully_shard: expected a Module, got {type(module).__name__}")
        if isinstance(module, flambeau.nn.ModuleList | flambeau.nn.ModuleDict):
            if type(module).forward in (flambeau.nn.ModuleList.forward, flambeau.nn.ModuleDict.forward):
                raise ValueError(
                    "fully_shard: fully_shard does not support containers that do not implement forward: "
                    f"expected a module with forward, got {module}"
                )
        if state_of(module) is not None or modules.count(module) > 1:
            raise AssertionError(
                "fully_shard: Each distinct composable distributed API can only be applied to a module once. "
                "fully_shard has already been applied to the following module: expected another one, got "
                f"{module}"
            )


def _reshards(given: Any, layout: Layout) -> tuple[bool | None, Layout | None]:
    if given is None or isinstance(given, bool):
        return given, None
    if not isinstance(given, int):
        raise ValueError(
            "fully_shard: reshard_after_forward should be a bool or an int representing the group size to "
            f"reshard to: expected one of these, got {given}"
        )
    if given < 1 or layout.size % given:
        raise ValueError(
            "fully_shard: If passing reshard_after_forward as an int, it should be a factor of "
            f"{layout.size}: expected a divisor, got {given}"
        )
    if given in (1, layout.size):
        if given == 1:
            warnings.warn(
                "fully_shard: reshard_after_forward=1 means that each process keeps the whole; False says so",
                UserWarning,
                stacklevel=3,
            )
        return given != 1, None
    return True, smaller(layout, given)


def _places(modules: Sequence[Module], ignored: set[Any]) -> dict[Any, list[Place]]:
    """Return the parameters that no earlier call has, with the modules that have them."""
    places: dict[Any, list[Place]] = {}
    seen: set[Module] = set()
    left_out = {id(parameter) for parameter in ignored}
    for module in modules:
        for inner in _inner(module, modules, seen):
            for name, parameter in inner._parameters.items():
                if parameter is not None and id(parameter) not in left_out:
                    places.setdefault(parameter, []).append((inner, name))
    return places


def _inner(module: Module, roots: Sequence[Module], seen: set[Module]) -> Iterator[Module]:
    """Yield a module and those inside it, except sharded ones."""
    if module in seen or state_of(module) is not None:
        return
    seen.add(module)
    yield module
    for child in module.children():
        yield from _inner(child, roots, seen)


def _check_parameter(name: str, parameter: Any) -> None:
    if isinstance(parameter, flambeau.nn.parameter.UninitializedParameter):
        raise ValueError(f"fully_shard: expected initialized parameters, got a lazy one as {name}")
    if not parameter.is_contiguous():
        raise NotImplementedError(
            "fully_shard: FSDP does not support non-contiguous parameters yet: expected contiguous ones, "
            f"got {name} of shape {tuple(parameter.shape)} with strides {parameter.stride()}"
        )
    if vars(parameter).get("_is_sharded_elsewhere"):
        warnings.warn(
            f"fully_shard: {name} is a parameter that another call has sharded with another module; from now "
            "on the two modules have different parameters. Modules that share one belong in one call",
            UserWarning,
            stacklevel=3,
        )


def _dim_of(parameter: Any, choose: Callable[[Any], Any] | None, layout: Layout) -> int:
    """Return the dimension along which a parameter is divided."""
    placement = None if choose is None else choose(parameter)
    if placement is not None and not isinstance(placement, Shard):
        raise ValueError(
            f"fully_shard: Invalid shard_placement_fn result: expected a Shard or None, got {placement!r}"
        )
    if parameter.dim() == 0:
        raise ValueError(
            "fully_shard: fully_shard doesn't support scalar parameters: expected one dimension or more, got "
            "a parameter without; a tensor with one element in one dimension does as well"
        )
    dim = 0 if placement is None else placement.dim
    if not -parameter.dim() <= dim < parameter.dim():
        raise AssertionError(
            f"fully_shard: Shard dim {dim} is invalid for {parameter.dim()}D tensor: expected a dimension of "
            f"the parameter of shape {tuple(parameter.shape)}, got {dim}"
        )
    dim %= parameter.dim()
    size = parameter.size(dim)
    if isinstance(parameter, DTensor):
        joined(layout, parameter._spec, dim)  # whether that is possible
        size = parameter._local_tensor.size(dim)
    if dim and size % layout.size:
        raise NotImplementedError(
            "fully_shard: FSDP does not support uneven sharding on dim "
            f"{dim}: expected a size that {layout.size} divides, got {tuple(parameter.shape)}"
        )
    return dim


def _class_of(kind: type) -> type:
    """Return the subclass of a module's class with the methods of sharded modules."""
    if kind not in _classes:
        _classes[kind] = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {})
    return _classes[kind]


def _watch_state_dicts(group: ParameterGroup) -> None:
    """Let state dicts hold parts, and loading replace them."""
    for module in dict.fromkeys(m for parameter in group.parameters for m, _ in parameter.places):
        module.register_state_dict_pre_hook(lambda *_: group.reshard())
        module.register_load_state_dict_pre_hook(lambda *_: group.reshard())
        module.register_load_state_dict_post_hook(lambda *_: group.refresh())
