"""Reading and writing a module tree's state dict: the part of Module that does it."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import flambeau
from flambeau import Tensor
from flambeau.nn.modules.hooks import Hook, Hooks, RemovableHandle, register
from flambeau.nn.modules.tree import NestedModule
from flambeau.nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from flambeau.nn.modules.module import Module

EXTRA_STATE = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """What did not match in `load_state_dict`."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not (self.missing_keys or self.unexpected_keys):
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class StatefulModule(NestedModule):
    """The part of Module that collects and loads its state.

    A class whose state changes its form raises `_version`, and brings older states up to date in its own
    ``_load_from_state_dict``, which finds the version that was saved in ``local_metadata``.
    """

    _version: int = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: Hooks
    _state_dict_pre_hooks: Hooks
    _load_state_dict_pre_hooks: Hooks
    _load_state_dict_post_hooks: Hooks

    # --- collecting -------------------------------------------------------------------------------

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Collect the parameters and persistent buffers of the tree by path, detached but not copied.

        Args:
            *args: deprecated: `destination`, `prefix` and `keep_vars` by position.
            destination: a dictionary to add to. None makes one.
            prefix: what stands before each path.
            keep_vars: whether to put in the tensors themselves, with their history.
        Returns: an ordered dictionary.
        Raises: RuntimeError if a hook of `register_state_dict_post_hook` returns something.

        Example:
            >>> list(flambeau.nn.BatchNorm1d(2).state_dict())
            ['weight', 'bias', 'running_mean', 'running_var', 'num_batches_tracked']
        """
        if args:
            warnings.warn(
                "state_dict: positional arguments are deprecated; name destination, prefix and keep_vars",
                FutureWarning,
                stacklevel=2,
            )
            given = [*args, *(destination, prefix, keep_vars)[len(args) :]]
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # the versions, which a pickle keeps
        own = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = own
        for hook in list(self._state_dict_pre_hooks.values()):
            hook.call(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            changed = hook.call(self, destination, prefix, own)
            if changed is not None and hook.kind == "public":
                raise RuntimeError(
                    f"Module.state_dict: expected None as result of a post-hook, got {type(changed).__name__}"
                )
            destination = destination if changed is None else changed
        return destination

    def _own_state(self) -> dict[str, Tensor]:
        kept = ((k, v) for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set)
        return {k: v for k, v in chain(self._parameters.items(), kept) if v is not None}

    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not StatefulModule.get_extra_state

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Add this module's own state, without that of the modules inside."""
        for name, tensor in self._own_state().items():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if self._has_extra_state():
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """Return what `state_dict` stores of this module beside its tensors; subclasses define it with
        `set_extra_state`.

        Returns: any object that can be pickled.
        Raises: RuntimeError if the class does not define it.
        """
        raise RuntimeError(
            f"{type(self).__name__}.get_extra_state: the method was called but is not defined; define "
            "it beside set_extra_state"
        )

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` returned out of a state that is loaded; subclasses define both.

        Args:
            state: the object.
        Returns: None.
        Raises: RuntimeError if the class does not define it.
        """
        raise RuntimeError(
            f"{type(self).__name__}.set_extra_state: there is extra state but the method is not "
            "defined; define it beside get_extra_state"
        )

    # --- loading ----------------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy a state into the parameters and buffers of the tree.

        Args:
            state_dict: what `state_dict` returned, of this tree or another one.
            strict: whether its names have to be those of this tree.
            assign: whether its tensors become the parameters and buffers, instead of being copied to them.
        Returns: a named tuple: `missing_keys`, the names that the state lacks, and `unexpected_keys`, those
            that were not used.
        Raises: RuntimeError, which lists all that did not fit; TypeError for a value that is not a mapping.

        Example:
            >>> a, b = flambeau.nn.Linear(2, 3), flambeau.nn.Linear(2, 3)
            >>> a.load_state_dict(b.state_dict())
            <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: expected a mapping, got {type(state_dict).__name__}")
        loading = _Loading(getattr(state_dict, "_metadata", None), strict, assign)
        loading.load(self, OrderedDict(state_dict), "")
        return loading.finish(type(self).__name__)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own state, without that of the modules inside, and note what does not fit."""
        for hook in list(self._load_state_dict_pre_hooks.values()):
            rest = (prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
            hook.call(*((self,) if hook.kind == "module" else ()), state_dict, *rest)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = self._own_state()
        for name, target in own.items():
            key = prefix + name
            if key in state_dict:
                error = _load_one(self, name, target, state_dict[key], key, assign)
                error_msgs += [error] if error else []
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA_STATE
        if type(self).set_extra_state is not StatefulModule.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            known = own.keys()
            unexpected_keys += [
                key for key in state_dict if key != extra and _is_foreign(key, prefix, known, self._modules)
            ]

    # --- hooks ------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before the state of this module is collected.

        Args:
            hook: a function ``(module, prefix, keep_vars)``.
        Returns: a `RemovableHandle`.
        """
        return register(self._state_dict_pre_hooks, Hook(hook))

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook after the state of this module and those below it is collected.

        Args:
            hook: a function ``(module, state_dict, prefix, local_metadata)``, which may change the state and
                returns None.
        Returns: a `RemovableHandle`.
        """
        return register(self._state_dict_hooks, Hook(hook, kind="public"))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As `register_state_dict_post_hook`; what the hook returns replaces the state."""
        if any(known.call is hook and known.kind == "public" for known in self._state_dict_hooks.values()):
            raise RuntimeError(
                "Module._register_state_dict_hook: the hook is already registered by "
                "register_state_dict_post_hook; remove it first"
            )
        return register(self._state_dict_hooks, Hook(hook))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before the state of this module is loaded.

        Args:
            hook: a function ``(module, state_dict, prefix, local_metadata, strict, missing_keys,
                unexpected_keys, error_msgs)``, which may change the state and the lists.
        Returns: a `RemovableHandle`.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """As `register_load_state_dict_pre_hook`, whose first argument is left out by default."""
        return register(self._load_state_dict_pre_hooks, Hook(hook, kind="module" if with_module else ""))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook after the state of this module and those below it is loaded.

        Args:
            hook: a function ``(module, incompatible_keys)``, which may change the lists of keys and returns
                None.
        Returns: a `RemovableHandle`.
        """
        return register(self._load_state_dict_post_hooks, Hook(hook))


class _Loading:
    """One call of load_state_dict: what all modules of a tree have to say about a state."""

    def __init__(self, metadata: Any, strict: bool, assign: bool) -> None:
        self.metadata, self.strict, self.assign = metadata, strict, assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []

    def load(self, module: Any, state: dict[str, Any], prefix: str) -> None:
        """Load a module and then those inside, each from the part of the state that begins with its name."""
        own = dict({} if self.metadata is None else self.metadata.get(prefix[:-1], {}))
        if self.assign:
            own["assign_to_params_buffers"] = True
        module._load_from_state_dict(
            state, prefix, own, True, self.missing, self.unexpected, self.errors
        )  # strict: `finish` drops what is not asked for
        for name, child in module._modules.items():
            if child is not None:
                inner = f"{prefix}{name}."
                self.load(child, {k: v for k, v in state.items() if k.startswith(inner)}, inner)
        keys = IncompatibleKeys(self.missing, self.unexpected)
        for hook in list(module._load_state_dict_post_hooks.values()):
            changed = hook.call(module, keys)
            if changed is not None:
                raise AssertionError(
                    "register_load_state_dict_post_hook: expected None as result of the hook, got "
                    f"{type(changed).__name__}"
                )

    def finish(self, name: str) -> IncompatibleKeys:
        """Return what did not match, or raise for it."""
        errors = list(self.errors)
        if self.strict:
            for what, keys in (("Unexpected", self.unexpected), ("Missing", self.missing)):
                listing = ", ".join(f'"{key}"' for key in keys)
                errors += [f"{what} key(s) in state_dict: {listing}."] if keys else []
        if errors:
            listing = "\n\t".join(errors)
            raise RuntimeError(f"load_state_dict: Error(s) in loading state_dict of {name}:\n\t{listing}")
        return IncompatibleKeys(self.missing, self.unexpected)


def _is_foreign(key: str, prefix: str, own: Any, modules: dict[str, Any]) -> bool:
    """Whether a name under a module's prefix belongs to nothing in it."""
    if not key.startswith(prefix):
        return False
    first, dot, _ = key[len(prefix) :].partition(".")
    return first not in (modules if dot else own)


def _load_one(module: Any, name: str, target: Tensor, value: Any, key: str, assign: bool) -> str | None:
    """Load one parameter or buffer; return what is wrong with the value, if anything is."""
    if not isinstance(value, Tensor):
        return f"{key}: expected a Tensor, got {type(value).__name__}"
    if not is_lazy(target):
        if target.dim() == 0 and value.dim() == 1 and value.numel():
            value = value[0]  # states from before tensors without dimensions
        if not is_lazy(value) and value.shape != target.shape:
            return (
                f"size mismatch for {key}: the state_dict has shape {value.shape}, the module {target.shape}"
            )
    if target.is_meta and not value.is_meta and not assign:
        warnings.warn(
            f"{key}: copying to a meta tensor, which has no memory, is a no-op; load with assign=True",
            stacklevel=5,
        )
    try:
        with flambeau.no_grad():
            if assign:
                _assign(module, name, target, value)
            else:
                target.copy_(value)
    except Exception as error:
        return f"{key}: {type(error).__name__} while loading {value.shape} into {target.shape}: {error}"
    return None


def _assign(module: Module, name: str, target: Tensor, value: Tensor) -> None:
    if isinstance(target, Parameter) and not isinstance(value, Parameter):
        value = Parameter(value, requires_grad=target.requires_grad)
    else:
        value.requires_grad_(target.requires_grad)
    setattr(module, name, value)
