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
        """Add a group of parameters with hyperparameters of its own.

        Args:
            param_group: a dict with ``params`` and the hyperparameters that differ from the defaults.
        Raises: TypeError if `param_group` is not a dict, KeyError if it has no ``params``, TypeError if
            these are not tensors in an ordered collection, ValueError for a tensor that is not a leaf, for
            a parameter that another group holds, if only some groups have names, and for a hyperparameter
            that has neither a value nor a default.
        Returns: None.

        Example:
            >>> optimizer = flambeau.optim.SGD([flambeau.ones(1)], lr=0.1)
            >>> optimizer.add_param_group({"params": [flambeau.ones(1)], "lr": 0.01})
            >>> [group["lr"] for group in optimizer.param_groups]
            [0.1, 0.01]
        """
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
        """Drop the gradients of all parameters, or fill them with zeros.

        Args:
            set_to_none: whether to set each ``grad`` to None, which frees its memory. Otherwise it is
                detached and filled with zeros.
        Returns: None.
        """
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
        """Move every parameter that has a gradient.

        Args:
            closure: a function that computes the gradients anew and returns the loss. It runs first, with
                gradients enabled. None: the gradients in ``grad`` are used.
        Raises: NotImplementedError if the subclass does not define it.
        Returns: what `closure` returned, or None.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step()")

    @staticmethod
    def _loss(closure: Callable[[], Any] | None) -> Any:
        if closure is None:
            return None
        with flambeau.enable_grad():
            return closure()

    @staticmethod
    def profile_hook_step(func: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return a `step` that runs the hooks before and after it.

        The `step` of a subclass is wrapped when the class is made, so this is for other functions.

        Args:
            func: the function to wrap, whose first argument is the optimizer.
        Returns: the wrapped function.
        """
        return _with_hooks(func)

    # --- hooks -------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call a hook before each step.

        Args:
            hook: called as ``hook(optimizer, args, kwargs)``; it may return a pair of new args and kwargs.
        Returns: a handle whose ``remove()`` unregisters the hook.
        """
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call a hook after each step.

        Args:
            hook: called as ``hook(optimizer, args, kwargs)``.
        Returns: a handle whose ``remove()`` unregisters the hook.
        """
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call a hook before `state_dict`.

        Args:
            hook: called as ``hook(optimizer)``.
            prepend: whether the hook runs before those that were registered earlier.
        Returns: a handle whose ``remove()`` unregisters the hook.
        """
        return _register(self._state_hooks["state_dict_pre"], hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call a hook after `state_dict`.

        Args:
            hook: called as ``hook(optimizer, state_dict)``; it may return another dict, which is the result.
            prepend: whether the hook runs before those that were registered earlier.
        Returns: a handle whose ``remove()`` unregisters the hook.
        """
        return _register(self._state_hooks["state_dict_post"], hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call a hook before `load_state_dict`.

        Args:
            hook: called as ``hook(optimizer, state_dict)`` with a shallow copy; it may return another dict,
                which is loaded instead.
            prepend: whether the hook runs before those that were registered earlier.
        Returns: a handle whose ``remove()`` unregisters the hook.
        """
        return _register(self._state_hooks["load_state_dict_pre"], hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call a hook after `load_state_dict`.

        Args:
            hook: called as ``hook(optimizer)``.
            prepend: whether the hook runs before those that were registered earlier.
        Returns: a handle whose ``remove()`` unregisters the hook.
        """
        return _register(self._state_hooks["load_state_dict_post"], hook, prepend)

    # --- state -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return state and groups, with parameters replaced by their position.

        Returns: a dict with ``state`` (by the position of the parameter) and ``param_groups``. Tensors of the
            state are not copied.

        Example:
            >>> flambeau.optim.SGD([flambeau.ones(1)], lr=0.5).state_dict()["param_groups"][0]["params"]
            [0]
        """
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
        """Take over what `state_dict` returned.

        Tensors of the state are copied. They take the dtype and device of their parameter if it is of
        floating point; ``step`` keeps its own.

        Args:
            state_dict: the state of an optimizer whose groups have the same numbers of parameters.
        Raises: KeyError if ``state`` or ``param_groups`` is missing, ValueError if the number of groups or
            the number of parameters in a group differs.
        Returns: None.
        """
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
