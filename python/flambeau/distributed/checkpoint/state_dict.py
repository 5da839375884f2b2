"""States of models and optimizers for checkpoints, whatever wraps the model and however it is divided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flambeau._C import Tensor
from flambeau._loading.lazy import attributes
from flambeau.distributed._groups import default_group
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.state import IncompatibleKeys
from flambeau.optim.optimizer import Optimizer

from ._full_tensors import from_rank_0, part_like, presented
from ._module_names import plain_name, prefix_of
from ._optimizer_states import (
    flat_state,
    is_whole,
    listed,
    named_state,
    names_of,
    nested_state,
    packed_state,
    parameters_by_name,
)
from ._wrapped_models import (
    frozen_names,
    in_parts,
    is_wrapped,
    load_optimizers,
    optimizer_state,
    plain_names,
)

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

# Names that PyTorch's module has as well; a program that does not divide models does not load their module.
_OF_WRAPPERS = (
    "FullOptimStateDictConfig FullStateDictConfig OptimStateDictConfig ShardedOptimStateDictConfig "
    "ShardedStateDictConfig StateDictConfig StateDictType"
).split()
__getattr__, __dir__ = attributes(
    __name__,
    {
        **dict.fromkeys(_OF_WRAPPERS, "flambeau.distributed.fsdp"),
        "FSDP": "flambeau.distributed.fsdp.fully_sharded_data_parallel",
        "ShardedTensor": "flambeau.distributed.checkpoint._unbuilt",
    },
)


@dataclass
class StateDictOptions:
    """Options of the functions of this module.

    Args:
        full_state_dict: whether states have whole tensors in place of DTensors.
        cpu_offload: whether tensors are moved to the CPU. With `full_state_dict`, only rank 0 gets the state,
            and the others an empty dict.
        ignore_frozen_params: whether the state of the model leaves out parameters that require no gradient,
            and may lack them when it is set.
        keep_submodule_prefixes: whether names with `submodules` begin with the place of the submodule.
        strict: whether all keys must be there, and no others, when a state is set.
        broadcast_from_rank0: whether the state of rank 0 is set in all ranks. The others may give an empty
            dict. Needs `full_state_dict`.
        flatten_optimizer_state_dict: whether the optimizer's state is a flat dict with the keys
            ``state.NAME.KEY`` and ``param_groups.NAME.OPTION``, which several jobs can divide differently.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import StateDictOptions
        >>> StateDictOptions(full_state_dict=True).strict
        True
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False


def _checked(name: str, model: Any, options: StateDictOptions | None) -> StateDictOptions:
    if not isinstance(model, Module):
        raise TypeError(f"{name}: expected a Module, got {type(model).__name__}")
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError(
            f"{name}: full_state_dict must be True when broadcast_from_rank0 is True: expected "
            "StateDictOptions(full_state_dict=True, ...), got False"
        )
    return options


def _frozen(model: Module) -> set[str]:
    frozen = {name for name, parameter in parameters_by_name(model) if not parameter.requires_grad}
    return frozen | frozen_names(model)


def _put(found: dict[str, Any], name: str, key: str, value: Any) -> None:
    if key in found:
        raise ValueError(f"{name}: expected different names, got {key!r} twice")
    found[key] = value


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Return the state of a model.

    Names do not tell whether the model is wrapped: the parts ``module.`` of `DistributedDataParallel` and
    ``_orig_mod.`` of compiled modules are left out. Tensors share memory with the model unless they are
    gathered.

    Args:
        model: the model; all ranks call this if it has DTensors and `options` ask for whole ones.
        submodules: the parts whose state is wanted. Default: the whole model.
        options: see `StateDictOptions`.
    Returns: a dict from names to values.
    Raises: TypeError if `model` is no module; ValueError for options that exclude each other, a submodule
        that is not in the model, and names that are equal without prefixes.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_model_state_dict
        >>> net = flambeau.nn.parallel.DataParallel(flambeau.nn.Linear(1, 2))
        >>> sorted(get_model_state_dict(flambeau.compile(net.module)))
        ['bias', 'weight']
    """
    name = "get_model_state_dict"
    options = _checked(name, model, options)
    left_out = _frozen(model) if options.ignore_frozen_params else set()
    prefixes = None if submodules is None else [prefix_of(model, module) for module in submodules]
    found: dict[str, Any] = {}
    with in_parts(model):
        state = model.state_dict()
    for key, value in state.items():
        plain = plain_name(model, key)
        if plain in left_out:
            continue
        if prefixes is None:
            _put(found, name, plain, value)
            continue
        fitting = [prefix for prefix in prefixes if plain.startswith(prefix)]
        if fitting:
            short = plain if options.keep_submodule_prefixes else plain[len(max(fitting, key=len)) :]
            _put(found, name, short, value)
    result: dict[str, Any] = presented(found, options.full_state_dict, options.cpu_offload)
    return result


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """Return the state of optimizers under the names of the model's parameters.

    It fits another division of the model, and other groups of parameters as far as their options agree.
    Before the first step, optimizers of `flambeau.optim` give the state that they would begin with, which a
    load can write into. Those of programs make one step with gradients and a rate of zero, if their `step`
    needs no closure and no gradient is there.

    Args:
        model: the model; all ranks call this if it has DTensors and `options` ask for whole ones.
        optimizers: one or several, each for some parameters of the model.
        submodules: no effect; the state has the parameters of `optimizers`.
        options: see `StateDictOptions`.
    Returns: a dict with ``state``, from names to values, and ``param_groups``; or a flat one.
    Raises: KeyError if an optimizer has a parameter that the model lacks; ValueError if two have one
        parameter; TypeError if `model` is no module.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_optimizer_state_dict
        >>> net = flambeau.nn.Linear(1, 2)
        >>> state = get_optimizer_state_dict(net, flambeau.optim.SGD(net.parameters(), lr=0.5))
        >>> state["param_groups"][0]["params"]
        ['weight', 'bias']
    """
    name = "get_optimizer_state_dict"
    options = _checked(name, model, options)
    made = optimizer_state if is_wrapped(model) else named_state
    nested = made(name, model, listed(optimizers))
    found: dict[str, Any] = presented(nested, options.full_state_dict, options.cpu_offload)
    return flat_state(found) if options.flatten_optimizer_state_dict else found


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the states of a model and of optimizers.

    Args:
        model: as for `get_model_state_dict`.
        optimizers: as for `get_optimizer_state_dict`.
        submodules: as for `get_model_state_dict`.
        options: see `StateDictOptions`.
    Returns: both states.
    Raises: what the two functions raise.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_state_dict
        >>> net = flambeau.nn.Linear(1, 2)
        >>> weights, state = get_state_dict(net, flambeau.optim.Adam(net.parameters()))
        >>> sorted(state["state"]["bias"])
        ['exp_avg', 'exp_avg_sq', 'step']
    """
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Set the state of a model to what `get_model_state_dict` returned.

    Args:
        model: the model, wrapped and divided in any way.
        model_state_dict: the state. Whole tensors for DTensors must be equal on all ranks. It is not changed.
        options: see `StateDictOptions`.
    Returns: a named tuple of ``missing_keys`` and ``unexpected_keys``.
    Raises: RuntimeError if keys are missing or unexpected with `strict`, a size differs, or the state is
        empty; ValueError for options that exclude each other; TypeError if `model` is no module.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import set_model_state_dict
        >>> net = flambeau.nn.Linear(1, 1)
        >>> set_model_state_dict(net, {"weight": flambeau.ones(1, 1), "bias": flambeau.zeros(1)})
        <All keys matched successfully>
    """
    name = "set_model_state_dict"
    options = _checked(name, model, options)
    with in_parts(model):
        own = model.state_dict()
    keys = {plain_name(model, key): key for key in own}

    def keep(path: tuple[Any, ...], whole: Tensor) -> Tensor:
        return part_like(whole, own.get(keys.get(path[0], ""))) if len(path) == 1 else whole

    if options.broadcast_from_rank0:
        default_group()  # an error without one
        given = from_rank_0(name, model_state_dict, keep)
    else:
        given = {k: keep((k,), v) if isinstance(v, Tensor) else v for k, v in model_state_dict.items()}
    if not given:
        raise RuntimeError(f"{name}: expected the state of a model, got an empty dict")
    if options.ignore_frozen_params:
        given |= {plain: own[keys[plain]] for plain in _frozen(model) if plain not in given}
    wrapped = [key for key in given if key in own and key not in keys]
    if wrapped and options.strict:
        raise RuntimeError(f"{name}: expected names without the parts of wrappers, got {wrapped}")
    with in_parts(model):
        missing, unexpected = model.load_state_dict(
            {keys.get(key, key): value for key, value in given.items() if key not in wrapped},
            strict=options.strict,
        )
    return IncompatibleKeys([plain_name(model, key) for key in missing], unexpected + wrapped)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Set the states of optimizers to what `get_optimizer_state_dict` returned.

    Each group of parameters gets the options of the saved groups of its parameters, which must agree.

    Args:
        model: the model, wrapped and divided in any way.
        optimizers: one or several; parameters of the state that they do not have are ignored.
        optim_state_dict: the state, nested or flat. It is not changed.
        options: see `StateDictOptions`.
    Returns: None.
    Raises: KeyError if the state lacks ``state`` or ``param_groups``, or the model a parameter; RuntimeError
        if the state is empty or, with `strict`, lacks a parameter; ValueError if options of a group differ.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import (
        ...     get_optimizer_state_dict, set_optimizer_state_dict)
        >>> net = flambeau.nn.Linear(1, 1)
        >>> state = get_optimizer_state_dict(net, flambeau.optim.SGD(net.parameters(), lr=0.5))
        >>> other = flambeau.optim.SGD(net.parameters(), lr=0.1)
        >>> set_optimizer_state_dict(net, other, state)
        >>> other.param_groups[0]["lr"]
        0.5
    """
    name = "set_optimizer_state_dict"
    options = _checked(name, model, options)
    if is_wrapped(model):
        _set_wrapped(name, model, listed(optimizers), optim_state_dict, options)
        return
    parameters = dict(parameters_by_name(model))
    given = optim_state_dict
    if options.broadcast_from_rank0:
        default_group()

        def keep(path: tuple[Any, ...], whole: Tensor) -> Tensor:
            key = path if len(path) == 1 else path[1:]
            owner, slot = _owner(key, parameters)
            return part_like(whole, owner) if is_whole(slot, whole, owner) else whole

        given = from_rank_0(name, given, keep)
    given = _nested(name, given, parameters)
    chosen = listed(optimizers)
    packed = [packed_state(o, names_of(name, model, o), given, options.strict) for o in chosen]
    for optimizer, state in zip(chosen, packed, strict=True):
        optimizer.load_state_dict(state)


def _nested(name: str, given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a state of optimizers, nested or flat, as a nested one."""
    if not given:
        raise RuntimeError(f"{name}: expected the state of optimizers, got an empty dict")
    if "param_groups" not in given and any(key.startswith("param_groups.") for key in given):
        given = nested_state(given, names)
    for key in ("state", "param_groups"):
        if key not in given:
            raise KeyError(f"{name}: expected the keys 'state' and 'param_groups', got {sorted(given)}")
    return given


def _set_wrapped(
    name: str, model: Module, optimizers: list[Optimizer], given: dict[str, Any], options: StateDictOptions
) -> None:
    """Set the states of optimizers of flat parameters."""
    if options.broadcast_from_rank0:
        default_group()
        given = from_rank_0(name, given, lambda path, whole: whole)
    load_optimizers(name, model, optimizers, _nested(name, given, plain_names(model)))


def _owner(path: tuple[Any, ...], parameters: dict[str, Tensor]) -> tuple[Tensor | None, Any]:
    """Return the parameter that a value of a state belongs to, and the value's name."""
    if len(path) == 2:  # of a nested state
        return parameters.get(path[0]), path[1]
    found = nested_state({path[0]: None}, parameters)["state"] if len(path) == 1 else {}
    for name, values in found.items():
        return parameters[name], next(iter(values))
    return None, None


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Set the states of a model and of optimizers.

    Args:
        model: as for `set_model_state_dict`.
        optimizers: as for `set_optimizer_state_dict`.
        model_state_dict: as for `set_model_state_dict`.
        optim_state_dict: as for `set_optimizer_state_dict`.
        options: see `StateDictOptions`.
    Returns: a named tuple of ``missing_keys`` and ``unexpected_keys`` of the model.
    Raises: what the two functions raise.

    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
        >>> net = flambeau.nn.Linear(1, 1)
        >>> optimizer = flambeau.optim.Adam(net.parameters())
        >>> weights, state = get_state_dict(net, optimizer)
        >>> set_state_dict(net, optimizer, model_state_dict=weights, optim_state_dict=state)
        <All keys matched successfully>
    """
    keys = set_model_state_dict(model, model_state_dict, options=options)
    chosen = listed(optimizers)
    if chosen:
        set_optimizer_state_dict(model, chosen, optim_state_dict, options=options)
    return keys
