"""The settings of states: a form, with options that belong to it."""

from __future__ import annotations

from typing import Any

from flambeau.distributed.fsdp.api import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)

_OF_MODELS: dict[StateDictType, type[StateDictConfig]] = {
    StateDictType.FULL_STATE_DICT: FullStateDictConfig,
    StateDictType.LOCAL_STATE_DICT: LocalStateDictConfig,
    StateDictType.SHARDED_STATE_DICT: ShardedStateDictConfig,
}
_OF_OPTIMIZERS: dict[StateDictType, type[OptimStateDictConfig]] = {
    StateDictType.FULL_STATE_DICT: FullOptimStateDictConfig,
    StateDictType.LOCAL_STATE_DICT: LocalOptimStateDictConfig,
    StateDictType.SHARDED_STATE_DICT: ShardedOptimStateDictConfig,
}


def default_settings() -> StateDictSettings:
    """Return the settings that a wrapper begins with."""
    return checked_settings(StateDictType.FULL_STATE_DICT, None, None)


def checked_settings(kind: Any, of_model: Any, of_optimizer: Any) -> StateDictSettings:
    """Return settings. Raises: TypeError for no form; RuntimeError for options of another one."""
    if not isinstance(kind, StateDictType):
        raise TypeError(f"set_state_dict_type: expected a StateDictType, got {kind!r}")
    model, optimizer = _OF_MODELS[kind], _OF_OPTIMIZERS[kind]
    for expected, got in ((model, of_model), (optimizer, of_optimizer)):
        if got is not None and type(got) is not expected:
            raise RuntimeError(
                f"set_state_dict_type: Expected a config of type {expected} but got {type(got)}: expected "
                f"the options of {kind.name}"
            )
    return StateDictSettings(
        kind,
        model() if of_model is None else of_model,
        optimizer() if of_optimizer is None else of_optimizer,
    )
