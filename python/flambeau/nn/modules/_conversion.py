"""Applies a function of tensors to the parameters and buffers of one module."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau import Tensor, __future__
from flambeau.nn.parameter import Parameter
from flambeau.utils._python_dispatch import is_traceable_wrapper_subclass

if TYPE_CHECKING:
    from flambeau.nn.modules.module import Module


def convert_tensors(module: Module, fn: Callable[[Tensor], Tensor]) -> None:
    """Replace parameters, their gradients and buffers by what `fn` makes of them.

    Parameters stay the same objects unless the device changes or a setting of `flambeau.__future__` is on. A
    wrapper of tensors (`__tensor_flatten__`) is exchanged with its new value by `utils.swap_tensors`.
    """
    for name, parameter in module._parameters.items():
        if parameter is not None:
            module._parameters[name] = _converted(module, name, parameter, fn)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = fn(buffer)


def _converted(module: Module, name: str, parameter: Any, fn: Callable[[Tensor], Tensor]) -> Any:
    grad = parameter.grad
    with flambeau.no_grad():
        value = fn(parameter.data)
        new_grad = None if grad is None else fn(grad)
    # Other memory for a wrapper would leave the tensors inside it as they are.
    if __future__.get_swap_module_params_on_conversion() or is_traceable_wrapper_subclass(value):
        return _swapped(f"{type(module).__name__}.{name}", parameter, value, grad, new_grad)
    if _can_share(parameter, value):
        parameter.data = value
    else:
        parameter = Parameter(value, parameter.requires_grad)
    if grad is None or new_grad is None:
        return parameter
    if _can_share(grad, new_grad):
        grad.data = new_grad
        new_grad = grad
    parameter.grad = new_grad.requires_grad_(grad.requires_grad)
    return parameter


def _can_share(old: Tensor, new: Tensor) -> bool:
    """Whether the old object can take over the memory of the new one."""
    return old.device.type == new.device.type and not __future__.get_overwrite_module_params_on_conversion()


def _swapped(place: str, parameter: Any, value: Tensor, grad: Any, new_grad: Any) -> Any:
    """Exchange a parameter, and its gradient, with their new values; both objects stay."""
    parameter.grad = None  # which would hold the gradient
    try:
        flambeau.utils.swap_tensors(parameter, Parameter(value, parameter.requires_grad))
        if grad is not None:
            flambeau.utils.swap_tensors(grad, new_grad.requires_grad_(grad.requires_grad))
    except Exception as error:
        parameter.grad = grad
        raise RuntimeError(f"_apply(): Couldn't swap {place}: {error}") from error
    parameter.grad = grad
    return parameter
