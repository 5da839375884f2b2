"""Optimizer: the base of all optimizers, with parameter groups and a state per parameter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import flambeau
from flambeau import Tensor


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """Holds groups of parameters with their hyperparameters, and what is remembered per parameter.

    Args:
        params: parameters, or dicts each with ``params`` and hyperparameters of its own.
        defaults: hyperparameters of groups that do not say otherwise.
    Raises: ValueError if there are no parameters, TypeError for anything else than leaf tensors.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                "but got a Tensor"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: a dict with ``params`` and, where they differ from the defaults, hyperparameters."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        members = [params] if isinstance(params, Tensor) else list(params)
        # model.named_parameters() is accepted as well.
        members = [item[1] if isinstance(item, tuple) else item for item in members]
        for tensor in members:
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {type(tensor).__name__}"
                )
            if not tensor.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        known = {id(tensor) for tensor in chain.from_iterable(g["params"] for g in self.param_groups)}
        if known & {id(tensor) for tensor in members}:
            raise ValueError("some parameters appear in more than one parameter group")
        group = {**self.defaults, **param_group, "params": members}
        missing = [name for name, value in group.items() if value is required]
        if missing:
            raise ValueError(
                f"parameter group didn't specify a value of required optimization parameter {missing[0]}"
            )
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop (or, ``set_to_none=False``, zero) all gradients."""
        for tensor in chain.from_iterable(g["params"] for g in self.param_groups):
            if tensor.grad is not None:
                if set_to_none:
                    tensor.grad = None
                else:
                    tensor.grad.detach_().zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient; `closure` recomputes and returns the loss first."""
        loss = None
        if closure is not None:
            with flambeau.enable_grad():
                loss = closure()
        with flambeau.no_grad():
            for group in self.param_groups:
                for tensor in group["params"]:
                    if tensor.grad is not None:
                        self._update(tensor, tensor.grad, group, self.state[tensor])
        return loss

    def _update(self, tensor: Tensor, grad: Tensor, group: dict[str, Any], state: dict[str, Any]) -> None:
        raise TypeError(
            f"{type(self).__name__} must define _update(tensor, grad, group, state) or override step()"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return state and groups, with parameters replaced by their position."""
        place = {id(t): i for i, t in enumerate(chain.from_iterable(g["params"] for g in self.param_groups))}
        groups = [{**g, "params": [place[id(t)] for t in g["params"]]} for g in self.param_groups]
        return {"state": {place[id(t)]: s for t, s in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; groups must have the same numbers of parameters."""
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, self.param_groups, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group "
                "that doesn't match the size of optimizer's group"
            )
        places = chain.from_iterable(g["params"] for g in groups)
        tensors = dict(zip(places, chain.from_iterable(g["params"] for g in self.param_groups), strict=True))
        for own, loaded in zip(self.param_groups, groups, strict=True):
            own.update({name: value for name, value in loaded.items() if name != "params"})
        self.state = defaultdict(dict)
        for place, values in state_dict["state"].items():
            tensor = tensors[place]
            self.state[tensor] = {
                name: _like_parameter(name, value, tensor) for name, value in values.items()
            }

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _like_parameter(name: str, value: Any, tensor: Tensor) -> Any:
    """Copy a state tensor, cast to the parameter's dtype; the step count keeps its own."""
    if not isinstance(value, Tensor):
        return value
    keeps = name == "step" or not tensor.is_floating_point()
    return value.detach().clone() if keeps else value.detach().clone().to(tensor.dtype)


def check_at_least_zero(**values: float) -> None:
    """Refuse negative hyperparameters: ValueError "Invalid <name>: <value>"."""
    for name, value in values.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {name.replace('_', ' ')} value: {value}")
