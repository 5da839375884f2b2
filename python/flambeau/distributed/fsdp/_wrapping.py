"""How `FullyShardedDataParallel` finds, initializes and divides the parameters of a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import flambeau
from flambeau.distributed._reductions import BroadcastOptions
from flambeau.distributed.fsdp._flat import FlatParts, Original
from flambeau.distributed.fsdp._layout import Layout
from flambeau.distributed.fsdp._state import cast_to, state_of
from flambeau.distributed.fsdp._wrapper_state import HYBRID, hybrid_mesh
from flambeau.distributed.fsdp.api import BackwardPrefetch, MixedPrecision, ShardingStrategy
from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy, wrap_inside
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import UninitializedParameter
from flambeau.utils._pytree import tree_map

_NAME = "FullyShardedDataParallel"


def ignored_of(modules: Any, states: Any) -> set[Any]:
    """Return the modules and parameters that are left alone.

    Raises: ValueError if both arguments are given; TypeError for something else.
    """
    if modules is not None and states is not None:
        raise ValueError(
            f"{_NAME}: Cannot pass both ignored_modules and ignored_states at the same time: expected one of "
            "them, got both"
        )
    found: set[Any] = set()
    for each in (states or ()) if modules is None else modules:
        if isinstance(each, Module):
            found.update(each.modules())
            found.update(each.parameters())
        elif modules is None and isinstance(each, flambeau.Tensor):
            found.add(each)
        else:
            kinds = "modules" if modules is not None else "modules or parameters"
            raise TypeError(f"{_NAME}: expected ignored {kinds}, got {type(each).__name__}")
    return found


def own_modules(module: Module, ignored: set[Any], seen: set[Module] | None = None) -> Iterator[Module]:
    """Yield a module and those inside it, except wrapped and ignored ones."""
    seen = set() if seen is None else seen
    if module in seen or module in ignored or state_of(module) is not None:
        return
    seen.add(module)
    yield module
    for child in module.children():
        yield from own_modules(child, ignored, seen)


def initialize(module: Module, function: Callable[[Module], object] | None, ignored: set[Any]) -> None:
    """Give parameters and buffers on the meta device memory and values."""
    owners = list(own_modules(module, ignored))

    def has_meta(owner: Module) -> bool:
        tensors = [*owner.parameters(recurse=False), *owner.buffers(recurse=False)]
        return any(tensor.is_meta and tensor not in ignored for tensor in tensors)

    if not any(has_meta(owner) for owner in owners):
        return
    for owner in owners:
        if function is not None:
            function(owner)
        elif has_meta(owner):
            reset = getattr(owner, "reset_parameters", None)
            if reset is None:
                raise AttributeError(
                    f"{_NAME}: expected param_init_fn, or a method reset_parameters of each module with "
                    f"parameters on the meta device, got {type(owner).__name__} without it"
                )
            with flambeau.no_grad():
                owner.to_empty(device="cpu", recurse=False)
                reset()
    left = [type(owner).__name__ for owner in owners if has_meta(owner)]
    if left:
        raise RuntimeError(f"{_NAME}: expected param_init_fn to leave no parameters on meta, got {left}")


def originals_of(module: Module, ignored: set[Any], keeps: bool) -> list[Original]:
    """Return the parameters of a module that no wrapper inside it has.

    Raises: ValueError for parameters that cannot be in one flat tensor.
    """
    places: dict[Any, list[tuple[Module, str]]] = {}
    for owner in own_modules(module, ignored):
        for name, parameter in owner._parameters.items():
            if parameter is not None and parameter not in ignored:
                places.setdefault(parameter, []).append((owner, name))
    for parameter, where in places.items():
        _check_parameter(parameter, where[0][1])
    dtypes = list(dict.fromkeys(parameter.dtype for parameter in places))
    if len(dtypes) > 1:
        raise ValueError(
            f"{_NAME}: Must flatten tensors with uniform dtype but got {dtypes[0]} and {dtypes[1]}: expected "
            "one dtype in each wrapped module"
        )
    if not keeps and len({parameter.requires_grad for parameter in places}) > 1:
        raise ValueError(
            f"{_NAME}: Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`: "
            "expected parameters that all need gradients, or none, got both"
        )
    return [Original(parameter, where) for parameter, where in places.items()]


def _check_parameter(parameter: Any, name: str) -> None:
    if isinstance(parameter, UninitializedParameter):
        raise ValueError(f"{_NAME}: expected initialized parameters, got a lazy one as {name}")
    if parameter.dim() == 0:
        raise ValueError(
            f"{_NAME}: FSDP doesn't support scalar parameters. Change {name} to a 1D tensor with numel equal "
            "to 1: expected one dimension or more, got none"
        )
    if type(parameter).__name__ == "DTensor" or hasattr(parameter, "_local_tensor"):
        raise ValueError(f"{_NAME}: expected plain parameters, got a DTensor as {name}; fully_shard takes it")
    if vars(parameter).get("_is_sharded_elsewhere"):
        raise ValueError(
            f"{_NAME}: expected modules that share a parameter in one wrapper, got {name}, which a wrapper "
            "inside has"
        )


def synchronize(module: Module, layout: Layout, ignored: set[Any]) -> None:
    """Give all processes the parameters and buffers of the first one."""
    groups = [layout.group] if layout.size > 1 else []
    groups += [] if layout.copies is None else [layout.copies]
    with flambeau.no_grad():
        for owner in own_modules(module, ignored):
            for tensor in (*owner.parameters(recurse=False), *owner.buffers(recurse=False)):
                if tensor in ignored:
                    continue
                for group in reversed(groups):
                    value = tensor.detach().contiguous()
                    group.broadcast([value], BroadcastOptions()).wait()
                    if value.data_ptr() != tensor.data_ptr():
                        tensor.detach().copy_(value)


def divide(
    module: Module, layout: Layout, ignored: set[Any], keeps: bool, whole_dtype: flambeau.dtype | None
) -> FlatParts | None:
    """Divide the parameters of a module; return None if it has none."""
    originals = originals_of(module, ignored, keeps)
    if not originals:
        return None
    marked = [original.parameter for original in originals]
    with flambeau.no_grad():
        parts = FlatParts(module, originals, layout, keeps, whole_dtype)
    for parameter in marked:
        vars(parameter)["_is_sharded_elsewhere"] = True
    return parts


def low_dtype(precision: MixedPrecision, layout: Layout) -> flambeau.dtype | None:
    """Return the dtype of the gradients of parts; None: that of the parameters."""
    if not precision.keep_low_precision_grads:
        return None
    if layout.size == 1 and precision.reduce_dtype is not None:
        return precision.reduce_dtype
    return precision.param_dtype


def check(module: Any, options: dict[str, Any]) -> None:
    """Raise for wrong arguments."""
    strategy, precision = options["sharding_strategy"], options["mixed_precision"]
    prefetch, device = options["backward_prefetch"], options["device_id"]
    if not isinstance(module, Module):
        raise TypeError(f"{_NAME}: expected a Module, got {type(module).__name__}")
    if not isinstance(strategy, ShardingStrategy):
        raise TypeError(f"{_NAME}: expected a ShardingStrategy, got {strategy!r}")
    if not isinstance(precision, MixedPrecision):
        raise TypeError(f"{_NAME}: expected a MixedPrecision, got {precision!r}")
    if prefetch is not None and not isinstance(prefetch, BackwardPrefetch):
        raise TypeError(f"{_NAME}: expected a BackwardPrefetch or None, got {prefetch!r}")
    if device is not None and (isinstance(device, int) or flambeau.device(device).type != "cpu"):
        raise ValueError(f"{_NAME}: expected None or the CPU as device_id, got {device!r}")


def wrap_by_policy(
    module: Any, policy: Any, wrapper: Any, options: dict[str, Any], ignored: set[Any]
) -> None:
    """Wrap modules inside `module`: those that compute in their own dtype, and those of the policy."""
    has_processes = options["process_group"] is not None or options["device_mesh"] is not None
    if options["sharding_strategy"] in HYBRID and not has_processes:
        options["device_mesh"] = hybrid_mesh()
    precision: MixedPrecision = options["mixed_precision"]
    kept = tuple(precision._module_classes_to_ignore)
    is_mixed = any((precision.param_dtype, precision.reduce_dtype, precision.buffer_dtype))
    if is_mixed and any(isinstance(m, kept) for m in module.modules() if m not in ignored):
        own = {**options, "mixed_precision": MixedPrecision(_module_classes_to_ignore=())}

        def in_own_dtype(inner: Module, **given: Any) -> Module:
            made: Module = wrapper(inner, **given)
            if precision.param_dtype is not None:
                _cast_around(made, precision.param_dtype)
            return made

        wrap_inside(module, ModuleWrapPolicy(kept), in_own_dtype, own, ignored)
    for each in module.modules():
        if state_of(each) is not None and each is not module:
            ignored = ignored | {each, *each.modules()}
    wrap_inside(module, policy, wrapper, options, ignored)


def _cast_around(wrapper: Module, dtype: flambeau.dtype) -> None:
    """Cast arguments to float32 and results to a dtype."""

    def before(_: Module, args: Any, kwargs: Any) -> Any:
        return tree_map(cast_to(flambeau.float32), (args, kwargs))

    def after(_: Module, args: Any, output: Any) -> Any:
        return tree_map(cast_to(dtype), output)

    wrapper.register_forward_pre_hook(before, with_kwargs=True)
    wrapper.register_forward_hook(after)
