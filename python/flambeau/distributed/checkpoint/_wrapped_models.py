"""States of models with modules that `FullyShardedDataParallel` wraps."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from flambeau.nn.modules.module import Module
from flambeau.optim.optimizer import Optimizer

State = dict[str, Any]


def is_wrapped(model: Module) -> bool:
    """Whether a model has wrappers; a program that has not loaded their module has none."""
    fsdp = sys.modules.get("flambeau.distributed.fsdp")
    return fsdp is not None and bool(fsdp.FullyShardedDataParallel.fsdp_modules(model))


@contextlib.contextmanager
def in_parts(model: Module) -> Iterator[None]:
    """Let the state of a model have a DTensor per parameter within the context."""
    if not is_wrapped(model):
        yield
        return
    from flambeau.distributed.fsdp import FullyShardedDataParallel, StateDictType

    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        yield


def frozen_names(model: Module) -> set[str]:
    """Return the names of parameters in wrappers that need no gradients."""
    if not is_wrapped(model):
        return set()
    from flambeau.distributed.fsdp._flat_states import sites_of

    return {
        name
        for site in sites_of(model)
        for original, names in site.names.items()
        if not original.parameter.requires_grad
        for name in names
    }


def optimizer_state(name: str, model: Module, optimizers: list[Optimizer]) -> State:
    """Return the states of optimizers as one. Raises: ValueError if two optimizers have one parameter."""
    from flambeau.distributed.fsdp import StateDictType
    from flambeau.distributed.fsdp._flat_states import named

    state: State = {}
    groups: list[State] = []
    for optimizer in optimizers:
        found = named(name, model, optimizer, StateDictType.SHARDED_STATE_DICT, fresh=True)
        new = {key for group in found["param_groups"] for key in group["params"]}
        twice = sorted(new.intersection(key for group in groups for key in group["params"]))
        if twice:
            raise ValueError(f"{name}: expected each parameter in one optimizer, got {twice} in two")
        state |= found["state"]
        groups += found["param_groups"]
    return {"state": state, "param_groups": groups} if optimizers else {}


def plain_names(model: Module) -> set[str]:
    """Return the names that parameters have in the plain model."""
    from flambeau.distributed.fsdp._flat_states import sites_of
    from flambeau.distributed.fsdp._wrapped_states import clean

    found = {clean(name) for name, _ in model.named_parameters(remove_duplicate=False)}
    return found | {name for site in sites_of(model) for names in site.names.values() for name in names}


def load_optimizers(name: str, model: Module, optimizers: list[Optimizer], given: State) -> None:
    """Load a state with a value per parameter of the plain model."""
    from flambeau.distributed.fsdp._flat_states import groups_of, packed

    made = [packed(name, model, groups_of(optimizer), given) for optimizer in optimizers]
    for optimizer, state in zip(optimizers, made, strict=True):
        optimizer.load_state_dict(state)
