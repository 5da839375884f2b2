"""Batch normalisations in evaluation, taken into the layer before them."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.parameter import Parameter


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of the convolution that normalises its results as well.

    Args:
        conv_w: the convolution's weight.
        conv_b: its bias.
        bn_rm: running mean of the normalisation.
        bn_rv: its running variance.
        bn_eps: added to that.
        bn_w: scale.
        bn_b: shift.
        transpose: whether output channels are the weight's second dimension.
    """
    shift = flambeau.zeros_like(bn_rm) if conv_b is None else conv_b
    factor = flambeau.rsqrt(bn_rv + bn_eps) * (flambeau.ones_like(bn_rm) if bn_w is None else bn_w)
    shape = [1, -1] if transpose else [-1, 1]
    weight = (conv_w * factor.reshape(shape + [1] * (conv_w.dim() - 2))).to(conv_w.dtype)
    bias = (shift - bn_rm) * factor + (flambeau.zeros_like(bn_rm) if bn_b is None else bn_b)
    return (
        Parameter(weight, conv_w.requires_grad),
        Parameter(bias.to(shift.dtype), conv_w.requires_grad if conv_b is None else conv_b.requires_grad),
    )


def _fused(layer: Any, bn: Any, transpose: bool) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("fusion needs running statistics")
    out = copy.deepcopy(layer)
    statistics = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    out.weight, out.bias = fuse_conv_bn_weights(layer.weight, layer.bias, *statistics, transpose)
    return out


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a convolution that does the work of both modules, which must be in evaluation mode."""
    return _fused(conv, bn, transpose)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of the linear layer that normalises its results as well."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a linear layer that does the work of both modules, which must be in evaluation mode."""
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("fuse: expected bn to have the features of linear, or 1")
    return _fused(linear, bn, False)


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a module without drawing initial values: its parameters are uninitialised.

    Args:
        module_cls: a module's class that takes `device`.
        *args: its arguments.
        **kwargs: its arguments by keyword.
    Raises: RuntimeError for what is no module's class, or has no parameter `device`.
    """
    if not issubclass(module_cls, flambeau.nn.Module):
        raise RuntimeError(f"skip_init: expected a class of modules, got {module_cls.__name__}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(f"skip_init: {module_cls.__name__} has no parameter 'device'")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
