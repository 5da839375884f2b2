"""Where PyTorch has what lies elsewhere here: its files, and the private names that programs import.

Each line of `TEXT` is a module of PyTorch, then where its names are found: a module of flambeau, or
``name=module`` for a single name, or ``name=module:other`` where it goes by another name there.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from flambeau import _lazy

TEXT = """
_C._functorch is_batchedtensor=_C get_unwrapped=_C
_jit_internal boolean_dispatch=_jit_names BroadcastingList1=_jit_names
_namedtensor_internals _tensor
_tensor_str _tensor_str
_utils_internal _utils
autograd.variable Variable=autograd
cuda.amp amp
cuda.amp.autocast_mode cuda.amp
cuda.amp.grad_scaler cuda.amp
cuda.graphs cuda
cuda.memory cuda
cuda.random cuda
cuda.streams cuda
nn.backends
nn.common_types
nn.modules.activation MultiheadAttention=nn
nn.modules.adaptive AdaptiveLogSoftmaxWithLoss=nn
nn.modules.batchnorm nn.modules.normalization nn.modules.lazy
nn.modules.channelshuffle nn.modules.rearrange
nn.modules.container nn.modules.containers nn.modules.parameter_containers
nn.modules.distance nn.modules.rearrange
nn.modules.flatten nn.modules.linear
nn.modules.fold nn.modules.rearrange
nn.modules.instancenorm nn.modules.normalization nn.modules.lazy
nn.modules.pixelshuffle nn.modules.rearrange
nn.modules.sparse nn.modules.linear
nn.modules.upsampling nn.modules.rearrange
nn.utils.clip_grad nn.utils.parameters
nn.utils.convert_parameters nn.utils.parameters
nn.utils.fusion nn.utils.fusion
nn.utils.init skip_init=nn.utils
nn.utils.spectral_norm nn.utils.normalized
nn.utils.weight_norm nn.utils.normalized
"""


def _parse(text: str) -> dict[str, list[str]]:
    return {words[0].strip("."): words[1:] for line in text.splitlines() if (words := line.split())}


MODULES = _parse(TEXT)


def find(module: str, name: str) -> Any:
    """Return what PyTorch has under a name of a module, from where it lies here; None if unknown."""
    for entry in MODULES.get(module.partition(".")[2], ()):
        single, is_single, home = entry.partition("=")
        home, _, other = (home if is_single else entry).partition(":")
        if not is_single or single == name:
            there = import_module(f"flambeau.{home}")
            value = getattr(there, other or name, None)
            if value is not None:
                return value
    return None


def fill(module: ModuleType) -> None:
    """Let a module find its names where they are."""
    key = module.__name__.partition(".")[2]
    homes = [f"flambeau.{entry}" for entry in MODULES[key] if "=" not in entry]
    module.__doc__ = f"PyTorch's place of names of {', '.join(homes) or 'other modules'}."
    found, listed = _lazy.attributes(module.__name__)

    def __dir__() -> list[str]:
        return sorted({*listed(), *names_of(key)})

    vars(module)["__getattr__"], vars(module)["__dir__"] = found, __dir__


def names_of(key: str) -> set[str]:
    """Return the names that the table gives to a module."""
    entries = MODULES.get(key, [])
    single = {entry.partition("=")[0] for entry in entries if "=" in entry}
    whole = (dir(import_module(f"flambeau.{entry}")) for entry in entries if "=" not in entry)
    return single.union(*whole)
