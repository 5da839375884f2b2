"""The methods of `FullyShardedDataParallel` for states of optimizers."""

from __future__ import annotations

import enum
from typing import Any

from flambeau.distributed._groups import get_rank
from flambeau.distributed.fsdp import _flat_states as states
from flambeau.distributed.fsdp.api import StateDictType
from flambeau.nn.modules.module import Module
from flambeau.optim.optimizer import Optimizer

__all__ = ["OptimStateKeyType"]


class OptimStateKeyType(enum.Enum):
    """The keys of an optimizer's state: names of parameters, or their numbers.

    Example:
        >>> flambeau.distributed.fsdp.OptimStateKeyType.PARAM_NAME.value
        1
    """

    PARAM_NAME = enum.auto()
    PARAM_ID = enum.auto()


OptimStateKeyType.__module__ = "flambeau.distributed.fsdp.fully_sharded_data_parallel"
State = dict[str, Any]


class OptimizerStates:
    """States of optimizers under the names of the plain model's parameters."""

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Optimizer, optim_state_dict: State | None = None, group: Any = None
    ) -> State:
        """Return the state of an optimizer under the names of the plain model's parameters.

        Values have the sizes of the plain parameters. The form is that of `set_state_dict_type`; its
        ``LOCAL_STATE_DICT`` gives the same as ``SHARDED_STATE_DICT``.

        Args:
            model: the model, in all processes.
            optim: the optimizer of its parameters.
            optim_state_dict: the optimizer's own state. Default: ``optim.state_dict()``.
            group: no effect.
        Returns: a dict with ``state`` and ``param_groups``; empty with ``rank0_only`` in other ranks than 0.
        Raises: KeyError for parameters that the model lacks.
        """
        settings = states.settings_of(model)
        is_here = not getattr(settings.optim_state_dict_config, "rank0_only", False) or get_rank() == 0
        found = states.named("optim_state_dict", model, optim, settings.state_dict_type, optim_state_dict)
        return found if is_here else {}

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Optimizer,
        optim_state_dict: State,
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> State:
        """Return what `optim.load_state_dict` takes for a result of `optim_state_dict`.

        Args:
            model: the model, in all processes, divided in any way.
            optim: the optimizer of its parameters.
            optim_state_dict: the state. With ``rank0_only``, that of rank 0 counts.
            is_named_optimizer: only False.
            load_directly: whether to load it, too.
            group: no effect.
        Returns: a dict with ``state`` and ``param_groups``.
        Raises: KeyError for a state without these keys, or parameters that the model lacks; ValueError for
            values of other sizes.
        """
        name = "optim_state_dict_to_load"
        if is_named_optimizer:
            raise ValueError(f"{name}: expected is_named_optimizer=False, got {is_named_optimizer}")
        settings = states.settings_of(model)
        if getattr(settings.optim_state_dict_config, "rank0_only", False):
            optim_state_dict = states.of_rank_0(name, optim_state_dict)
        found = states.packed(name, model, states.groups_of(optim), optim_state_dict)
        if load_directly:
            optim.load_state_dict(found)
        return found

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Optimizer, optim_input: Any = None, rank0_only: bool = True, group: Any = None
    ) -> State:
        """Return the state of an optimizer with whole tensors; `optim_state_dict` replaces this.

        Args:
            model: the model, in all processes.
            optim: the optimizer of its parameters.
            optim_input: no effect.
            rank0_only: whether the other ranks than 0 get an empty dict.
            group: no effect.
        """
        found = states.named("full_optim_state_dict", model, optim, StateDictType.FULL_STATE_DICT)
        return {} if rank0_only and get_rank() > 0 else found

    @staticmethod
    def sharded_optim_state_dict(model: Module, optim: Optimizer, group: Any = None) -> State:
        """Return the state of an optimizer with parts; `optim_state_dict` replaces this.

        Args:
            model: the model, in all processes.
            optim: the optimizer of its parameters.
            group: no effect.
        """
        return states.named("sharded_optim_state_dict", model, optim, StateDictType.SHARDED_STATE_DICT)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: State, model: Module, optim_input: Any = None, optim: Any = None
    ) -> State:
        """Return what an optimizer loads for a state with whole tensors, which each process has.

        Args:
            full_optim_state_dict: the state.
            model: the model, in all processes.
            optim_input: what the optimizer was made of. Default: ``model.parameters()``.
            optim: the optimizer, instead of `optim_input`.
        """
        groups = states.groups_of(optim, optim_input, model)
        return states.packed("shard_full_optim_state_dict", model, groups, full_optim_state_dict)

    @staticmethod
    def flatten_sharded_optim_state_dict(
        sharded_optim_state_dict: State, model: Module, optim: Optimizer
    ) -> State:
        """Return what an optimizer loads for a state with parts.

        Args:
            sharded_optim_state_dict: the state.
            model: the model, in all processes.
            optim: the optimizer.
        """
        name = "flatten_sharded_optim_state_dict"
        return states.packed(name, model, states.groups_of(optim), sharded_optim_state_dict)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: State | None,
        model: Module,
        optim_input: Any = None,
        optim: Any = None,
        group: Any = None,
    ) -> State:
        """Return what an optimizer loads for a state with whole tensors that rank 0 has.

        Args:
            full_optim_state_dict: the state in rank 0; elsewhere it does not count.
            model: the model, in all processes.
            optim_input: what the optimizer was made of. Default: ``model.parameters()``.
            optim: the optimizer, instead of `optim_input`.
            group: no effect.
        """
        name = "scatter_full_optim_state_dict"
        given = states.of_rank_0(name, full_optim_state_dict or {})
        return states.packed(name, model, states.groups_of(optim, optim_input, model), given)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: State,
        optim_state_key_type: OptimStateKeyType,
        model: Module,
        optim_input: Any = None,
        optim: Any = None,
    ) -> State:
        """Return the state of an optimizer with names of parameters in place of numbers, or the other way.

        Args:
            optim_state_dict: the state of an optimizer of a plain model, or one that
                `full_optim_state_dict` returned.
            optim_state_key_type: the keys of the result.
            model: a plain model, or one with ``use_orig_params=True``.
            optim_input: what the optimizer was made of. Default: ``model.parameters()``.
            optim: the optimizer, instead of `optim_input`.
        Raises: TypeError for another type of keys; RuntimeError if a parameter has several names.
        """
        if not isinstance(optim_state_key_type, OptimStateKeyType):
            raise TypeError(
                f"rekey_optim_state_dict: expected an OptimStateKeyType, got {optim_state_key_type!r}"
            )
        groups = states.groups_of(optim, optim_input, model)
        is_named = optim_state_key_type is OptimStateKeyType.PARAM_NAME
        return states.rekeyed(optim_state_dict, is_named, model, groups)
