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
        preserved_attrs: names of attributes, which must exist; all attributes are kept.
        optimize_numerics: accepted for compatibility.
    Returns: a deep copy; its parameters have ``requires_grad=False``.
    Raises: RuntimeError for a module that is neither scripted nor traced, or is in training mode, and for a
        name in `preserved_attrs` that the module does not have.
    See also: jit.optimize_for_inference

    Example:
        >>> model = flambeau.jit.script(flambeau.nn.Linear(2, 1).eval())
        >>> frozen = flambeau.jit.freeze(model)
        >>> any(parameter.requires_grad for parameter in frozen.parameters())
        False
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
    """Leave a module unchanged: no optimisation follows `freeze`.

    Args:
        mod: a module that `freeze` returned.
        optimize_numerics: accepted for compatibility.
        preserved_methods: accepted for compatibility.
    Returns: None.

    Example:
        >>> model = flambeau.jit.freeze(flambeau.jit.script(flambeau.nn.ReLU().eval()))
        >>> flambeau.jit.run_frozen_optimizations(model)
    """


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """Return a frozen copy of a module in evaluation mode; a module in training mode is returned unchanged.

    Args:
        mod: a scripted or traced module.
        other_methods: accepted for compatibility; all methods are kept.
    Returns: the result of `freeze`, or `mod` itself.
    Raises: RuntimeError for a module that is neither scripted nor traced.

    Example:
        >>> model = flambeau.jit.script(flambeau.nn.ReLU().eval())
        >>> flambeau.jit.optimize_for_inference(model)(flambeau.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(f"optimize_for_inference: expected a ScriptModule, got {type(mod).__name__}")
    return freeze(mod.eval()) if not mod.training else mod
