"""Names of parameters that do not tell how a module is wrapped."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel.distributed import DistributedDataParallel


def _is_wrapped(module: Any, name: str) -> bool:
    """Whether a child is the whole module that its parent wraps."""
    if isinstance(module, DistributedDataParallel):
        return name == "module"
    return name in ("_orig_mod", "_fsdp_wrapped_module")  # of compiled modules, of divided ones


def plain_name(model: Module, key: str) -> str:
    """Return a key of a module's state without the parts that DDP and `compile` add."""
    module: Any = model
    kept = []
    for part in key.split("."):
        child = None if module is None else module._modules.get(part)
        if child is None or not _is_wrapped(module, part):
            kept.append(part)
        module = child
    return ".".join(kept)


def names_of_parameters(model: Module) -> dict[Tensor, list[str]]:
    """Return the names of each parameter; a shared one has several."""
    found: dict[Tensor, list[str]] = {}
    for key, parameter in model.named_parameters(remove_duplicate=False):
        found.setdefault(parameter, []).append(plain_name(model, key))
    return found


def prefix_of(model: Module, submodule: Module) -> str:
    """Return what the names of a submodule begin with. Raises: ValueError if it is not in the model."""
    for name, module in model.named_modules():
        if module is submodule:
            plain = plain_name(model, name)
            return f"{plain}." if plain else ""
    raise ValueError(f"submodules: expected modules of the model, got {type(submodule).__name__}")
