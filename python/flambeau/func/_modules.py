"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau.nn.modules.module import Module

_State = Mapping[str, Tensor]
_ABSENT = object()


def _one_dict(dicts: Any) -> dict[str, Tensor]:
    """Merge the given dicts.

    Raises: ValueError if one is not a dict, or if two of them share a key.
    """
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, Sequence):
        raise ValueError(f"functional_call: expected a dict, or several in a list, got {type(dicts)}")
    joined: dict[str, Tensor] = {}
    for part in dicts:
        if not isinstance(part, dict):
            raise ValueError(f"functional_call: expected dicts in the list, got {type(part).__name__}")
        twice = sorted(set(part) & set(joined))
        if twice:
            raise ValueError(f"functional_call: expected each name in one dict, got {twice} in several dicts")
        joined.update(part)
    return joined


def _places(module: Module) -> dict[str, Tensor]:
    """Return all parameters and buffers by name; tied ones appear under each of their names."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module._named_members("_buffers", "", True, False)),
    }


def _with_ties(given: dict[str, Tensor], places: dict[str, Tensor]) -> dict[str, Tensor]:
    """Set all tied names to the tensor that is given for one of them.

    Raises: ValueError if tied names are given different tensors.
    """
    groups: dict[int, list[str]] = {}
    for name, tensor in places.items():
        groups.setdefault(id(tensor), []).append(name)
    tied = dict(given)
    for names in groups.values():
        named = [name for name in names if name in given]
        if not named:
            continue
        if any(given[name] is not given[named[0]] for name in named):
            raise ValueError(
                f"functional_call: expected one value for {named}, which are tied, got several; pass "
                "tie_weights=False to allow that"
            )
        tied.update(dict.fromkeys(names, given[named[0]]))
    return tied


def _check_names(module: Module, given: dict[str, Tensor], places: dict[str, Tensor]) -> None:
    errors = []
    for what, names in (("Unexpected", set(given) - set(places)), ("Missing", set(places) - set(given))):
        if names:
            errors.append(f"{what} key(s): " + ", ".join(map(repr, sorted(names))) + ".")
    if errors:
        listing = "\n\t".join(errors)
        raise RuntimeError(
            f"functional_call: Error(s) in reparametrizing for {type(module).__name__}:\n\t{listing}"
        )


@contextlib.contextmanager
def _replaced(module: Module, values: dict[str, Tensor]) -> Iterator[None]:
    """Replace parameters and buffers by other tensors within the block, and restore them at the end.

    A name that the module lacks becomes an attribute within the block. If the module replaces a value,
    `values` has the new one afterwards.
    """
    kept: list[tuple[str, dict[str, Any], str, Any]] = []
    try:
        for path, value in values.items():
            prefix, _, name = path.rpartition(".")
            owner = module.get_submodule(prefix)
            if not name:
                raise KeyError(f"functional_call: expected the name of a tensor, got {path!r}")
            tables = (owner._parameters, owner._buffers)
            table = next((t for t in tables if name in t), vars(owner))
            kept.append((path, table, name, table.get(name, _ABSENT)))
            table[name] = value
        yield
    finally:
        for path, table, name, before in reversed(kept):
            values[path] = table.get(name, values[path])
            if before is _ABSENT:
                table.pop(name, None)
            else:
                table[name] = before


@contextlib.contextmanager
def reparametrized(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """Replace a module's tensors within the block; see `functional_call` for the arguments.

    If the module replaces a value, `parameters_and_buffers` has the new one afterwards.
    """
    places = _places(module)
    for value in parameters_and_buffers.values():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"functional_call: expected an instance of flambeau.Tensor, got {value}, which is not an "
                "instance of flambeau.Tensor"
            )
    values = _with_ties(parameters_and_buffers, places) if tie_weights else dict(parameters_and_buffers)
    if strict:
        _check_names(module, values, places)
    try:
        with _replaced(module, values):
            yield
    finally:
        parameters_and_buffers.update((name, values[name]) for name in parameters_and_buffers)


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers.

    If the module replaces a buffer during the call, the dict that contained the buffer has the new one
    afterwards. The module itself is unchanged afterwards.

    Args:
        module: the module.
        parameter_and_buffer_dicts: a dict of tensors by dotted name, or several of them.
        args: a tuple of positional arguments, or a single positional argument.
        kwargs: the keyword arguments.
        tie_weights: whether a tensor given for one name replaces all names of the same parameter.
        strict: whether exactly the names of the module must be given.
    Returns: the result of the module.
    Raises: ValueError if dicts share a name or tied names get different tensors, TypeError for values that
        are not tensors, RuntimeError for names that `strict` does not allow.

    Example:
        >>> layer = flambeau.nn.Linear(2, 1)
        >>> weights = {"weight": flambeau.ones(1, 2), "bias": flambeau.zeros(1)}
        >>> flambeau.func.functional_call(layer, weights, flambeau.tensor([[1.0, 2.0]]))
        tensor([[3.]])
    """
    given = _one_dict(parameter_and_buffer_dicts)
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrized(module, given, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def _stacked(name: str, tensors: Sequence[Tensor]) -> Tensor:
    wanted = tensors[0].requires_grad
    if any(t.requires_grad != wanted for t in tensors):
        raise RuntimeError(
            f"stack_module_state: expected models with the same requires_grad of {name}, got both values"
        )
    return flambeau.stack([t.detach() for t in tensors]).requires_grad_(wanted)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Stack the parameters and buffers of several models, for `functional_call` under `vmap`.

    Args:
        models: modules of one class, mode and size.
    Returns: two dicts of new leaves by dotted name: parameters and buffers.
    Shape: ``(len(models), *n)`` for a parameter ``(*n)``.
    Raises: RuntimeError if there are no models or they differ.

    Example:
        >>> models = [flambeau.nn.Linear(2, 3) for _ in range(4)]
        >>> params, buffers = flambeau.func.stack_module_state(models)
        >>> def call(p, b, x):
        ...     return flambeau.func.functional_call(models[0], (p, b), x)
        >>> flambeau.vmap(call, in_dims=(0, 0, None))(params, buffers, flambeau.ones(5, 2)).shape
        flambeau.Size([4, 5, 3])
    """
    if not len(models):
        raise RuntimeError("stack_module_state: expected one model or more, got none")
    first = next(iter(models))
    if any(model.training != first.training for model in models):
        raise RuntimeError(
            "stack_module_state: expected models that are all in training or all in evaluation, got both"
        )
    if any(type(model) is not type(first) for model in models):
        raise RuntimeError("stack_module_state: expected models of one class, got several classes")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return (
        {name: _stacked(name, [p[name] for p in parameters]) for name in parameters[0]},
        {name: _stacked(name, [b[name] for b in buffers]) for name in buffers[0]},
    )


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Replace the running statistics of all batch normalization layers by the statistics of each batch.

    All examples share the running statistics, so `vmap` over examples cannot update them.

    Args:
        root: the module, which is changed in place.
    Returns: `root`.

    Example:
        >>> layer = flambeau.func.replace_all_batch_norm_modules_(flambeau.nn.BatchNorm1d(2))
        >>> layer.running_mean is None, layer.track_running_stats
        (True, False)
    """
    for module in root.modules():
        if getattr(module, "track_running_stats", False) and "running_mean" in module._buffers:
            module.track_running_stats = False
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                module._buffers[name] = None
    return root
