"""Optimizer: the base of all optimizers, with parameter groups, a state per parameter, and hooks."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from itertools import chain
from typing import Any, ParamSpec, TypeAlias, TypeVar

import flambeau
from flambeau import _C, Tensor
from flambeau._loading.lazy import attributes
from flambeau._state.profiling import record_function
from flambeau.nn.modules.module import RemovableHandle
from flambeau.optim._arguments import described
from flambeau.utils import _foreach_utils

_P = ParamSpec("_P")
_R = TypeVar("_R")
Hook = Callable[..., Any]
_STATE_HOOKS = ("state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post")
_global_hooks: dict[str, OrderedDict[int, Hook]] = {"pre": OrderedDict(), "post": OrderedDict()}


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def _register(hooks: OrderedDict[int, Hook], hook: Hook, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Register a function that every optimizer calls before each step.

    Args:
        hook: called as ``hook(optimizer, args, kwargs)``; it returns None, or new ``(args, kwargs)`` for
            `step`.
    Returns: a handle whose ``remove()`` unregisters the hook.

    Example:
        >>> from flambeau.optim.optimizer import register_optimizer_step_pre_hook
        >>> w = flambeau.tensor([1.0], requires_grad=True)
        >>> handle = register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: print("before"))
        >>> flambeau.optim.SGD([w]).step()
        before
        >>> handle.remove()
    """
    return _register(_global_hooks["pre"], hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Register a function that every optimizer calls after each step.

    Args:
        hook: called as ``hook(optimizer, args, kwargs)``.
    Returns: a handle whose ``remove()`` unregisters the hook.

    Example:
        >>> from flambeau.optim.optimizer import register_optimizer_step_post_hook
        >>> w = flambeau.tensor([1.0], requires_grad=True)
        >>> handle = register_optimizer_step_post_hook(lambda optimizer, args, kwargs: print("after"))
        >>> flambeau.optim.SGD([w]).step()
        after
        >>> handle.remove()
    """
    return _register(_global_hooks["post"], hook)


def _recorded(optimizer: Optimizer, method: str) -> contextlib.AbstractContextManager[Any]:
    """Return a range for the profiler, where this thread is profiled."""
    if not _C._profiler_enabled():
        return contextlib.nullcontext()
    return record_function(f"Optimizer.{method}#{type(optimizer).__name__}.{method}")


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a class's `step`; a step that calls the base class's one runs the hooks once."""

    @functools.wraps(step)
    def wrapper(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        # A wrapper around another optimizer may derive from this class without calling its constructor.
        if self.__dict__.get("_stepping") or "_optimizer_step_pre_hooks" not in self.__dict__:
            return step(self, *args, **kwargs)
        for hook in (*_global_hooks["pre"].values(), *self._optimizer_step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"{step}: expected None or (new_args, new_kwargs), got {changed}")
                args, kwargs = changed
        self._stepping = True
        try:
            with _recorded(self, "step"):
                out = step(self, *args, **kwargs)
        finally:
            self._stepping = False
        self._opt_called = True
        for hook in (*self._optimizer_step_post_hooks.values(), *_global_hooks["post"].values()):
            hook(self, args, kwargs)
        return out

    return wrapper


@described
class Optimizer:
    """Base class of optimizers: parameter groups with hyperparameters, a state per parameter, and hooks.

    A subclass defines ``step``.

    Args:
        {params}
        defaults: the hyperparameters of groups that do not give their own.

    Attributes:
        param_groups: list of dicts, each with ``params`` and the hyperparameters of the group.
        state: dict from a parameter to its dict of states.
    Raises: ValueError without parameters or for tensors that are not leaves, TypeError for anything that is
        not a tensor.

    Example:
        >>> class SignDescent(flambeau.optim.Optimizer):
        ...     @flambeau.no_grad()
        ...     def step(self, closure=None):
        ...         for group in self.param_groups:
        ...             for p in group["params"]:
        ...                 p -= group["lr"] * p.grad.sign()
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> w.square().sum().backward()
        >>> SignDescent([w], {"lr": 0.5}).step()
        >>> w.detach()
        tensor([ 0.5000, -1.5000])
    """

    OptimizerPreHook: TypeAlias = Callable[
        [Any, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]] | None
    ]
    OptimizerPostHook: TypeAlias = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
    _stepping: bool  # whether a step runs, which serves the hooks

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                f"{type(self).__name__}: expected a sequence of Tensors or dicts as params, got "
                f"{params.type()}"
            )
        self.defaults = defaults
        self._make_hooks()
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError(f"{type(self).__name__}: expected params, got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def _make_hooks(self) -> None:
        self._optimizer_step_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._optimizer_step_post_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._state_hooks: dict[str, OrderedDict[int, Hook]] = {k: OrderedDict() for k in _STATE_HOOKS}
        self._opt_called = False

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_state_hooks" not in self.__dict__:
            self._make_hooks()
        self.defaults.setdefault("differentiable", False)

    _group_tensors_by_device_and_dtype = staticmethod(_foreach_utils._group_tensors_by_device_and_dtype)

    # --- groups ------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: a dict with ``params`` and, where they differ from the defaults, hyperparameters."""
        if not isinstance(param_group, dict):
            raise TypeError(f"add_param_group: expected a dict, got {type(param_group)}")
        members, names = _members(param_group["params"], bool(self.defaults.get("differentiable")))
        if len(members) != len({id(tensor) for tensor in members}):
            warnings.warn(
                "a group has duplicate parameters: a step updates them once for each mention",
                stacklevel=3,
            )
        if self.param_groups and ("param_names" in self.param_groups[0]) != bool(names):
            raise ValueError(
                f"{type(self).__name__}: expected param groups with/without names, got some of each"
            )
        known = {id(tensor) for tensor in self._tensors()}
        if known & {id(tensor) for tensor in members}:
            raise ValueError(
                f"{type(self).__name__}: expected each parameter in one group, got one in more than one "
                "parameter group"
            )
        group = {**self.defaults, **param_group, "params": members}
        if names:
            group["param_names"] = names
        missing = [name for name, value in group.items() if value is required]
        if missing:
            raise ValueError(
                f"{type(self).__name__}: expected a value for {missing[0]} in the parameter group, which "
                "has no default, got none"
            )
        self.param_groups.append(group)

    def _tensors(self) -> Iterator[Tensor]:
        return chain.from_iterable(group["params"] for group in self.param_groups)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop (or, ``set_to_none=False``, zero) all gradients."""
        with _recorded(self, "zero_grad"):
            self._drop_gradients(set_to_none)

    def _drop_gradients(self, set_to_none: bool) -> None:
        for tensor in self._tensors():
            if tensor.grad is None:
                continue
            if set_to_none:
                tensor.grad = None
            elif tensor.grad.grad_fn is not None:
                tensor.grad.detach_().zero_()
            else:
                tensor.grad.requires_grad_(False).zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient; `closure` recomputes and returns the loss first."""
        raise NotImplementedError(f"{type(self).__name__} must define step()")

    @staticmethod
    def _loss(closure: Callable[[], Any] | None) -> Any:
        if closure is None:
            return None
        with flambeau.enable_grad():
            return closure()

    @staticmethod
    def profile_hook_step(func: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return a `step` that runs the hooks before and after it; classes' own steps are such already."""
        return _with_hooks(func)

    # --- hooks -------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return new args and kwargs."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before `state_dict`."""
        return _register(self._state_hooks["state_dict_pre"], hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after `state_dict`; it may return another one."""
        return _register(self._state_hooks["state_dict_post"], hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before `load_state_dict`; it may return another one."""
        return _register(self._state_hooks["load_state_dict_pre"], hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after `load_state_dict`."""
        return _register(self._state_hooks["load_state_dict_post"], hook, prepend)

    # --- state -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return state and groups, with parameters replaced by their position."""
        for hook in self._state_hooks["state_dict_pre"].values():
            hook(self)
        place = {id(t): i for i, t in enumerate(self._tensors())}
        groups = [{k: v for k, v in g.items() if k != "params"} for g in self.param_groups]
        for group, own in zip(groups, self.param_groups, strict=True):
            group["params"] = [place[id(t)] for t in own["params"]]
        state = {place[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        out: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._state_hooks["state_dict_post"].values():
            changed = hook(self, out)
            out = out if changed is None else changed
        return out

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; groups must have the same numbers of parameters."""
        state_dict = state_dict.copy()
        for hook in self._state_hooks["load_state_dict_pre"].values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups = deepcopy(state_dict["param_groups"])
        if len(groups) != len(self.param_groups):
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: expected {len(self.param_groups)} parameter "
                f"groups, got {len(groups)}"
            )
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, self.param_groups, strict=True)):
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: expected groups of "
                f"{[len(g['params']) for g in self.param_groups]} parameters, got "
                f"{[len(g['params']) for g in groups]}"
            )
        places = chain.from_iterable(g["params"] for g in groups)
        tensors = dict(zip(places, self._tensors(), strict=True))
        for own, loaded in zip(self.param_groups, groups, strict=True):
            loaded["params"] = own["params"]
            if "param_names" in own:
                loaded.setdefault("param_names", own["param_names"])
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for place, values in state_dict["state"].items():
            owner = tensors.get(place)
            state[place if owner is None else owner] = _cast(values, owner, "")
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._state_hooks["load_state_dict_post"].values():
            hook(self)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
            lines.append("")
        return "\n".join([*(lines[:-1] if self.param_groups else lines), ")"])


def _members(given: Any, differentiable: bool) -> tuple[list[Tensor], list[str]]:
    """The tensors of a group, and their names where pairs of name and tensor are given."""
    if isinstance(given, set):
        raise TypeError("Optimizer: expected params in an ordered collection, got a set")
    listed = [given] if isinstance(given, Tensor) else list(given)
    names = [item[0] for item in listed if isinstance(item, tuple)]
    if names and len(names) != len(listed):
        raise ValueError("Optimizer: expected params with/without names, got some of each")
    members = [item[1] for item in listed] if names else listed
    for tensor in members:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"Optimizer: expected Tensors, got {type(tensor).__name__}")
        if not differentiable and not tensor.is_leaf and not tensor.retains_grad:
            raise ValueError("Optimizer: expected leaves, got a non-leaf Tensor")
    return members, names


def _cast(value: Any, owner: Tensor | None, name: str) -> Any:
    """Copy state tensors in the dtype of their parameter; the step count keeps its own."""
    if isinstance(value, Tensor):
        if owner is None or name == "step" or not owner.is_floating_point():
            return value.clone()
        return value.to(dtype=owner.dtype, device=owner.device, copy=True)
    if isinstance(value, dict):
        return {k: _cast(v, owner, k) for k, v in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_cast(v, owner, name) for v in value)
    return value


__getattr__, __dir__ = attributes(__name__)
