"""freeze: modules in evaluation mode for inference."""

from __future__ import annotations

import copy
from typing import Any

from flambeau.jit._script import ScriptModule

__all__ = ["freeze", "optimize_for_inference", "run_frozen_optimizations"]


def freeze(mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Any:
    """Return a copy of a scripted or traced module whose parameters do not collect gradients.

    Args:
        mod: the module, in evaluation mode.
        preserved_attrs: accepted for compatibility; all attributes are kept.
        optimize_numerics: accepted for compatibility.
    Raises: RuntimeError for a module that is neither scripted nor traced, or is in training mode.
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(f"freeze: expected a ScriptModule, got {type(mod).__name__}; use jit.script first")
    if mod.training:
        raise RuntimeError("freeze: the module must be in eval mode; call eval() first")
    for name in preserved_attrs or ():
        if not hasattr(mod, name):
            raise RuntimeError(f"freeze: the module does not have an attribute {name!r}")
    frozen = copy.deepcopy(mod)
    return frozen.requires_grad_(False)


def run_frozen_optimizations(
    mod: Any, optimize_numerics: bool = True, preserved_methods: list[str] | None = None
) -> None:
    """Do nothing: `freeze` leaves no further optimisation."""


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """Return the module, frozen if it is in evaluation mode."""
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(f"optimize_for_inference: expected a ScriptModule, got {type(mod).__name__}")
    return freeze(mod.eval()) if not mod.training else mod
