"""States of optimizers of flat parameters: from parts to values per parameter, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._objects import all_gather_object
from flambeau.distributed.fsdp._flat import FlatParts, Original
from flambeau.distributed.fsdp._settings import default_settings
from flambeau.distributed.fsdp._state import state_of
from flambeau.distributed.fsdp._wrapped_states import clean, places_of, presented, whole_of
from flambeau.distributed.fsdp._wrapper_state import WrapperState
from flambeau.distributed.fsdp.api import StateDictSettings, StateDictType
from flambeau.nn.modules.module import Module

State = dict[str, Any]


def wrappers_in(model: Module) -> list[Any]:
    """Return the wrappers in a model."""
    return [module for module in model.modules() if isinstance(state_of(module), WrapperState)]


def settings_of(model: Module) -> StateDictSettings:
    """Return the form of the states of a model's wrappers."""
    found = [wrapper._settings for wrapper in wrappers_in(model)]
    if any(other != found[0] for other in found):
        raise RuntimeError("optim_state_dict: expected one form of states in all wrappers, got several")
    return found[0] if found else default_settings()


def groups_of(optim: Any, optim_input: Any = None, model: Module | None = None) -> list[list[Any]]:
    """Return the parameters of each group of an optimizer, or of what it was made of."""
    if optim is not None:
        return [group["params"] for group in optim.param_groups]
    assert model is not None
    given = list(model.parameters() if optim_input is None else optim_input)
    if given and isinstance(given[0], dict):
        return [list(group["params"]) for group in given]
    return [given]


def of_rank_0(name: str, state: State) -> State:
    """Return the state of rank 0 in all processes."""
    from flambeau.distributed.checkpoint._full_tensors import from_rank_0

    found: State = from_rank_0(name, state, lambda path, whole: whole)
    return found


class Site:
    """A wrapper's flat parameter, with the names of its parameters in the whole model.

    Args:
        wrapper: the wrapper.
        prefix: the name of the wrapper, with a dot at its end unless it is the model.
    """

    def __init__(self, wrapper: Any, prefix: str) -> None:
        self.parts: FlatParts = wrapper._parts
        self.names: dict[Original, list[str]] = {
            original: [prefix + name for name in names] for original, names in places_of(wrapper)
        }


def sites_of(model: Module) -> list[Site]:
    """Return the flat parameters of a model."""
    found = []
    for name, module in model.named_modules():
        if isinstance(state_of(module), WrapperState) and module._parts is not None:
            plain = clean(f"{name}.")
            found.append(Site(module, "" if plain == "." else plain))
    return found


def names_of(name: str, model: Module, parameters: Iterable[Any]) -> list[list[str]]:
    """Return the names of what each parameter of an optimizer consists of. Raises: KeyError without one."""
    known: dict[Any, list[str]] = {}
    for key, parameter in model.named_parameters():
        known[parameter] = [clean(key)]
    for site in sites_of(model):
        for parameter in site.parts.parts():
            known[parameter] = []
        for original, names in site.names.items():
            known[original.parameter].append(names[0])
    found = []
    for i, parameter in enumerate(parameters):
        if parameter not in known:
            raise KeyError(
                f"{name}: expected parameters of the model, got number {i}, of size {tuple(parameter.shape)}"
            )
        found.append(known[parameter])
    return found


# --- from parts to values per parameter ----------------------------------------------------------------


def _fresh(optim: Any) -> dict[Any, State]:
    """Return the states before the first step, so that a load has tensors to write into."""
    from flambeau.distributed.checkpoint._optimizer_states import fresh_states

    return fresh_states(optim)


def named(
    name: str, model: Module, optim: Any, kind: StateDictType, given: State | None = None, fresh: bool = False
) -> State:
    """Return the state of an optimizer with a value per parameter of the plain model.

    Args:
        name: the public function.
        model: the model, in all processes.
        optim: the optimizer.
        kind: the form of the values.
        given: the optimizer's own state, or None.
        fresh: whether an optimizer that has not stepped gives the state that it would begin with.
    """
    packed = optim.state_dict() if given is None else given
    parameters = [p for group in optim.param_groups for p in group["params"]]
    places = [place for group in packed["param_groups"] for place in group["params"]]
    names = names_of(name, model, parameters)
    own = {p: packed["state"].get(i, {}) for p, i in zip(parameters, places, strict=True)}
    if fresh:
        own |= _fresh(optim)
    state: State = {}
    flat: set[Any] = set()
    for site in sites_of(model):
        flat.update(site.parts.parts())
        if any(p in own for p in site.parts.parts()):
            state |= _values(site, own, kind)
    for parameter, keys in zip(parameters, names, strict=True):
        if parameter not in flat and own[parameter]:
            state[keys[0]] = own[parameter]
    by_place = dict(zip(places, names, strict=True))
    groups = [
        {**group, "params": [key for place in group["params"] for key in by_place[place]]}
        for group in packed["param_groups"]
    ]
    return {"state": state, "param_groups": groups}


def _is_divided(value: Any) -> bool:
    """Whether a value has an element for each one of a part; others count for the whole parameter."""
    return isinstance(value, Tensor) and value.dim() > 0


def _described(site: Site, own: dict[Any, State]) -> list[State]:
    """Return what all processes know of each parameter: the dtype of divided values, and the other ones."""
    mine: list[State] = []
    for original in site.parts.originals:
        values = own.get(original.parameter, {})
        mine.append({k: v.dtype if _is_divided(v) else (v,) for k, v in values.items()})
    group = site.parts.layout.group
    found: list[Any] = [mine]
    if site.parts.layout.size > 1:
        found = [None] * group.size()
        all_gather_object(found, mine, group)
    merged: list[State] = [{} for _ in mine]
    for each in found:
        for known, more in zip(merged, each, strict=True):
            for key, value in more.items():
                known.setdefault(key, value)
    return merged


def _values(site: Site, own: dict[Any, State], kind: StateDictType) -> State:
    parts, described = site.parts, _described(site, own)
    found: dict[Original, State] = {original: {} for original in parts.originals}
    dtypes = {k: v for known in described for k, v in known.items() if not isinstance(v, tuple)}
    for original, known in zip(parts.originals, described, strict=True):
        for key, value in known.items():
            if isinstance(value, tuple):
                found[original][key] = value[0]
    for key in sorted(dtypes):
        local = parts.slices(lambda p, key=key: own.get(p, {}).get(key))  # type: ignore[misc]
        if local is None:
            local = flambeau.zeros(parts.size, dtype=dtypes[key])
        for original, known, whole in zip(parts.originals, described, parts.wholes_of(local), strict=True):
            if key in known:
                found[original][key] = presented(whole, parts.layout, kind)
    return {site.names[original][0]: values for original, values in found.items() if values}


# --- from values per parameter to parts ----------------------------------------------------------------


def packed(name: str, model: Module, groups: list[list[Any]], given: State) -> State:
    """Return the state that an optimizer loads.

    Args:
        name: the public function.
        model: the model, in all processes.
        groups: the parameters of the optimizer.
        given: a state with a value per parameter of the plain model.
    """
    for key in ("state", "param_groups"):
        if key not in given:
            raise KeyError(f"{name}: expected the keys 'state' and 'param_groups', got {sorted(given)}")
    parameters = [p for group in groups for p in group]
    names = names_of(name, model, parameters)
    number = {parameter: i for i, parameter in enumerate(parameters)}
    state: dict[int, State] = {}
    flat: set[Any] = set()
    for site in sites_of(model):
        flat.update(site.parts.parts())
        for parameter, values in _packed_site(name, site, given["state"]):
            if parameter in number:
                state[number[parameter]] = values
    for parameter, keys in zip(parameters, names, strict=True):
        if parameter not in flat and keys[0] in given["state"]:
            state[number[parameter]] = given["state"][keys[0]]
    options = _options(name, given, groups, names)
    return {"state": dict(sorted(state.items())), "param_groups": options}


def _options(name: str, given: State, groups: list[list[Any]], names: list[list[str]]) -> list[State]:
    """Return the options of each group: those of the saved group of its first parameter."""
    saved = {key: group for group in given["param_groups"] for key in group["params"]}
    found, first = [], 0
    for group in groups:
        places = list(range(first, first + len(group)))
        first += len(group)
        known = [saved[key] for i in places for key in names[i] if key in saved]
        if places and not known:
            raise KeyError(f"{name}: expected options for the group of {names[places[0]]}, got none")
        found.append({**(known[0] if known else {}), "params": places})
    return found


def _packed_site(name: str, site: Site, given: State) -> Iterator[tuple[Any, State]]:
    """Yield the parameters that an optimizer sees with the values of this process's parts."""
    parts = site.parts
    values: dict[Original, State] = {}
    for original, names in site.names.items():
        key = next((key for key in names if key in given), None)
        own = {} if key is None else {k: whole_of(v) for k, v in given[key].items()}
        for k, v in own.items():
            if _is_divided(v) and tuple(v.shape) != original.shape:
                raise ValueError(
                    f"{name}: expected {k} of shape {original.shape} for {names[0]}, got {tuple(v.shape)}"
                )
        values[original] = own
    if parts.keeps:
        for original, own in values.items():
            begin, end, _ = parts.span(original)
            if own and end > begin:
                yield original.parameter, {k: _own_part(parts, original, v) for k, v in own.items()}
        return
    merged: State = {}
    for own in values.values():
        merged = own | merged
    if merged:
        yield parts.sharded, {k: _joined(parts, values, k, v) for k, v in merged.items()}


def _own_part(parts: FlatParts, original: Original, value: Any) -> Any:
    if not _is_divided(value):
        return value
    begin, end, _ = parts.span(original)
    part = value.reshape(-1)[begin:end].clone()
    return part.view(original.shape) if parts.layout.size == 1 else part


def _joined(parts: FlatParts, values: dict[Original, State], key: str, example: Any) -> Any:
    """Return this process's part of values of all parameters; zeros where one has none."""
    if not _is_divided(example):
        return example
    local = flambeau.zeros(parts.size, dtype=example.dtype)
    parts.pack([values[original].get(key) for original in parts.originals], local)
    return local


# --- keys ----------------------------------------------------------------------------------------------


def rekeyed(given: State, is_named: bool, model: Module, groups: list[list[Any]]) -> State:
    """Return a state with names as keys, or with numbers."""
    parameters = [p for group in groups for p in group]
    names = names_of("rekey_optim_state_dict", model, parameters)
    for keys in names:
        if len(keys) != 1:
            raise RuntimeError(
                "rekey_optim_state_dict: Each parameter should only map to one parameter name but got "
                f"{len(keys)}: expected a plain model or use_orig_params=True, got {keys}"
            )
    table: dict[Any, Any] = {i: keys[0] for i, keys in enumerate(names)}
    table = table if is_named else {key: i for i, key in table.items()}

    def moved(key: Any) -> Any:
        if key not in table:
            raise KeyError(f"rekey_optim_state_dict: expected one of {list(table)[:8]}, got {key!r}")
        return table[key]

    return {
        "state": {moved(key): value for key, value in given["state"].items()},
        "param_groups": [
            {**group, "params": [moved(key) for key in group["params"]]} for group in given["param_groups"]
        ],
    }
