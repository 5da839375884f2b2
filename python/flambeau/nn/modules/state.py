"""Reading and writing a module tree's state dict."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import flambeau
from flambeau import Tensor
from flambeau.nn.parameter import Parameter

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


def _has_extra_state(module: Module) -> bool:
    from flambeau.nn.modules.module import Module as Base

    return type(module).get_extra_state is not Base.get_extra_state


def _own_state(module: Module) -> dict[str, Tensor]:
    buffers = {k: v for k, v in module._buffers.items() if k not in module._non_persistent_buffers_set}
    return {k: v for k, v in {**module._parameters, **buffers}.items() if v is not None}


def state_dict(module: Module, prefix: str, keep_vars: bool) -> dict[str, Any]:
    """Collect the state of `module` and all below it, in the order of definition."""
    state: OrderedDict[str, Any] = OrderedDict()
    for hook in list(module._state_dict_pre_hooks.values()):
        hook.call(module, prefix, keep_vars)
    for name, tensor in _own_state(module).items():
        state[prefix + name] = tensor if keep_vars else tensor.detach()
    if _has_extra_state(module):
        state[prefix + EXTRA_STATE] = module.get_extra_state()
    for name, child in module._modules.items():
        if child is not None:
            state.update(state_dict(child, f"{prefix}{name}.", keep_vars))
    for hook in list(module._state_dict_hooks.values()):
        hook.call(module, state, prefix, {})
    return state


def load_state_dict(module: Module, state: dict[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Copy `state` into the tree.

    Shapes must agree; with `strict`, so must the sets of names. With `assign` the tensors themselves
    become the parameters and buffers.

    Raises:
        RuntimeError: listing every missing, unexpected and misshapen entry.
    """
    missing: list[str] = []
    errors: list[str] = []
    used: set[str] = set()
    unexpected: list[str] = []
    state = dict(state)  # hooks may change it
    for path, part in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        for hook in list(part._load_state_dict_pre_hooks.values()):
            hook.call(part, state, prefix, {}, strict, missing, unexpected, errors)
        for name, target in _own_state(part).items():
            key = prefix + name
            if key not in state:
                missing.append(key)
                continue
            used.add(key)
            error = _load_one(part, name, target, state[key], assign)
            if error:
                errors.append(f"size mismatch for {key}: {error}")
        if _has_extra_state(part):
            if prefix + EXTRA_STATE in state:
                used.add(prefix + EXTRA_STATE)
                part.set_extra_state(state[prefix + EXTRA_STATE])
            else:
                missing.append(prefix + EXTRA_STATE)
    unexpected += [key for key in state if key not in used]
    keys = IncompatibleKeys(missing, unexpected)
    _run_post_hooks(module, keys)
    if strict and unexpected:
        errors.append("Unexpected key(s) in state_dict: " + ", ".join(f'"{k}"' for k in unexpected) + ".")
    if strict and missing:
        errors.append("Missing key(s) in state_dict: " + ", ".join(f'"{k}"' for k in missing) + ".")
    if errors:
        listing = "\n\t".join(errors)
        raise RuntimeError(f"Error(s) in loading state_dict of {type(module).__name__}:\n\t{listing}")
    return keys


def _run_post_hooks(module: Module, keys: IncompatibleKeys) -> None:
    for part in reversed(list(module.modules())):
        for hook in list(part._load_state_dict_post_hooks.values()):
            if hook.call(part, keys) is not None:
                raise RuntimeError("a hook of register_load_state_dict_post_hook must return None")


def _load_one(module: Module, name: str, target: Tensor, value: Any, assign: bool) -> str | None:
    if not isinstance(value, Tensor):
        return f"expected a Tensor, got {type(value).__name__}"
    if value.shape != target.shape:
        return f"the state_dict has shape {value.shape}, the module {target.shape}"
    if not assign:
        with flambeau.no_grad():
            target.copy_(value)
    elif name in module._parameters:
        module._parameters[name] = Parameter(value, target.requires_grad)
    else:
        module._buffers[name] = value
    return None
