"""States of optimizers under the names of the model's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau.nn.modules.module import Module
from flambeau.optim._rule import RuleOptimizer
from flambeau.optim.optimizer import Optimizer

from ._chunks import is_dtensor
from ._full_tensors import part_like
from ._module_names import names_of_parameters

State = dict[str, Any]


def listed(optimizers: Optimizer | Iterable[Optimizer]) -> list[Optimizer]:
    """Return one optimizer or several as a list."""
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def names_of(name: str, model: Module, optimizer: Optimizer) -> list[list[str]]:
    """Return the names of each parameter of an optimizer. Raises: KeyError if the model lacks one."""
    known = names_of_parameters(model)
    for i, parameter in enumerate(_parameters(optimizer)):
        if parameter not in known:
            found = f"number {i} of {type(optimizer).__name__}, of size {tuple(parameter.shape)}"
            raise KeyError(f"{name}: expected parameters of the model, got {found}")
    return [known[parameter] for parameter in _parameters(optimizer)]


def fresh_states(optimizer: Optimizer) -> dict[Tensor, State]:
    """Return the states before the first step, so that a load has tensors to write into."""
    if optimizer.state or not isinstance(optimizer, RuleOptimizer):
        return {}
    with flambeau.no_grad():
        return {
            p: {name: made(p, group) for name, made in optimizer.slots(group).items()}
            for group in optimizer.param_groups
            for p in group["params"]
            if p.requires_grad and optimizer.slots(group)
        }


def _make_states(optimizer: Optimizer) -> None:
    """Let an optimizer of a program make its states: a step with gradients of zero and a rate of zero."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    needs_closure = closure is not None and closure.default is inspect.Parameter.empty
    tensors = _parameters(optimizer)
    is_wrapper = any(isinstance(value, Optimizer) for value in vars(optimizer).values())
    if optimizer.state or isinstance(optimizer, RuleOptimizer) or needs_closure or is_wrapper:
        return
    if any(p.grad is not None for p in tensors):  # a step is about to be made
        return
    rates = [group.get("lr") for group in optimizer.param_groups]
    try:
        for p in tensors:
            p.grad = flambeau.zeros_like(p) if p.requires_grad else None
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = flambeau.zeros_like(rate) if isinstance(rate, Tensor) else 0.0
        optimizer.step()
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rate
        for p in tensors:
            p.grad = None


def named_state(name: str, model: Module, optimizers: list[Optimizer]) -> dict[str, Any]:
    """Return the states of optimizers as one.

    Raises: KeyError if the model lacks a parameter; ValueError if two optimizers have one parameter.
    """
    state: dict[Any, State] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in optimizers:
        _make_states(optimizer)
        names = [own[0] for own in names_of(name, model, optimizer)]
        packed = optimizer.state_dict()
        places = [place for group in packed["param_groups"] for place in group["params"]]
        name_at = dict(zip(places, names, strict=True))
        tensor_at = dict(zip(_parameters(optimizer), names, strict=True))
        found = {name_at.get(place, place): values for place, values in packed["state"].items()}
        found |= {tensor_at[p]: values for p, values in fresh_states(optimizer).items()}
        twice = sorted({n for group in groups for n in group["params"]}.intersection(names))
        if twice:
            raise ValueError(f"{name}: expected each parameter in one optimizer, got {twice} in two")
        state |= found
        groups += [{**g, "params": [name_at[place] for place in g["params"]]} for g in packed["param_groups"]]
    return {"state": state, "param_groups": groups} if optimizers else {}


def flat_state(nested: dict[str, Any]) -> dict[str, Any]:
    """Return a state whose keys are ``state.NAME.KEY`` and ``param_groups.NAME.OPTION``."""
    flat = {
        f"state.{name}.{key}": value
        for name, values in nested.get("state", {}).items()
        for key, value in values.items()
    }
    for group in nested.get("param_groups", ()):
        options = {key: value for key, value in group.items() if key != "params"}
        flat |= {f"param_groups.{name}.{key}": v for name in group["params"] for key, v in options.items()}
    return flat


def nested_state(given: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a flat state as a nested one, with a group for each parameter; others are ignored."""
    known = set(names)
    state: dict[str, State] = {}
    groups: dict[str, dict[str, Any]] = {}
    for key, value in given.items():
        kind, _, rest = key.partition(".")
        name, option = _split(rest, known)
        if name and kind == "state":
            state.setdefault(name, {})[option] = value
        elif name and kind == "param_groups":
            groups.setdefault(name, {"params": [name]})[option] = value
    return {"state": state, "param_groups": list(groups.values())}


def _split(text: str, known: set[str]) -> tuple[str, str]:
    """Return the longest name of a parameter that a key begins with, and the rest."""
    name = text
    while "." in name:
        name = name.rpartition(".")[0]
        if name in known:
            return name, text[len(name) + 1 :]
    return "", text


def _is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return bool(flambeau.equal(flambeau.as_tensor(a), flambeau.as_tensor(b)))
    return bool(a == b)


def _options(
    saved: list[dict[str, Any]], own: dict[str, Any], names: list[str], strict: bool
) -> dict[str, Any]:
    """Return the options of a group: those of the saved groups of its parameters.

    Raises: RuntimeError if none has a saved group; ValueError if their options differ.
    """
    found = [{k: v for k, v in g.items() if k not in ("params", "param_names")} for g in saved]
    if not found:
        if strict and names:
            raise RuntimeError(
                f"set_optimizer_state_dict: expected options for the group of {names}, got none. "
                "To load anyway, use StateDictOptions(strict=False)."
            )
        return {key: value for key, value in own.items() if key != "params"}
    for other in found[1:]:
        if strict and not (
            other.keys() == found[0].keys() and all(_is_equal(found[0][k], other[k]) for k in other)
        ):
            raise ValueError(
                f"set_optimizer_state_dict: expected equal options for the group of {names}, "
                f"got {found[0]} and {other}"
            )
    return found[0]


def packed_state(
    optimizer: Optimizer, names: list[list[str]], given: dict[str, Any], strict: bool
) -> dict[str, Any]:
    """Return the part of a named state that an optimizer loads.

    Raises: RuntimeError if a parameter's state is missing; what `_options` raises.
    """
    state: dict[int, State] = {}
    groups: list[dict[str, Any]] = []
    group_of = {name: group for group in given["param_groups"] for name in group["params"]}
    place = iter(range(len(names)))
    for own in optimizer.param_groups:
        places = [next(place) for _ in own["params"]]
        aliases = [names[i] for i in places]
        saved = [group_of[n] for n in (_known(a, group_of) for a in aliases) if n is not None]
        unique = list({id(g): g for g in saved}.values())
        options = _options(unique, own, [a[0] for a in aliases], strict)
        groups.append({**options, "params": places})
        for i, parameter in zip(places, own["params"], strict=True):
            name = _known(names[i], given["state"])
            if name is not None:
                state[i] = _like(given["state"][name], parameter)
            elif strict and given["state"] and parameter.requires_grad:
                raise RuntimeError(
                    f"set_optimizer_state_dict: Missing optimizer state for parameter {names[i][0]!r}, which "
                    "requires gradients. To load anyway, use StateDictOptions(strict=False)."
                )
    return {"state": state, "param_groups": groups}


def _known(aliases: list[str], among: Mapping[str, Any]) -> str | None:
    return next((name for name in aliases if name in among), None)


def _like(values: State, parameter: Any) -> State:
    """Return a state whose tensors of the parameter's size have its placements."""
    return {
        key: part_like(value, parameter) if is_whole(key, value, parameter) else value
        for key, value in values.items()
    }


def is_whole(key: Any, value: Any, parameter: Any) -> bool:
    """Whether a value of a state has an element for each one of a parameter that is a DTensor."""
    is_like = isinstance(value, Tensor) and is_dtensor(parameter) and value.shape == parameter.shape
    return is_like and key != "step"


def parameters_by_name(model: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield each name of each parameter."""
    for parameter, names in names_of_parameters(model).items():
        for name in names:
            yield name, parameter
