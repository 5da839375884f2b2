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
    """Compute weight and bias of a convolution that does the work of a batch normalization behind it, too.

    Formula: weight = conv_w * f, bias = (conv_b - bn_rm) f + bn_b, f = bn_w / sqrt(bn_rv + bn_eps)

    Args:
        conv_w: the weight of the convolution.
        conv_b: its bias, or None.
        bn_rm: the running mean of the normalization.
        bn_rv: its running variance.
        bn_eps: what it adds to the variance.
        bn_w: its scale. None means 1.
        bn_b: its shift. None means 0.
        transpose: whether the weight's second dimension counts the output channels, as in transposed
            convolutions.
    Returns: the two new parameters.

    Example:
        >>> w, zero, one = flambeau.ones(1, 1, 1), flambeau.zeros(1), flambeau.ones(1)
        >>> flambeau.nn.utils.fuse_conv_bn_weights(w, None, one, one, 0.0, 2 * one, zero)[1].detach()
        tensor([-2.])
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
        raise AssertionError(
            "fuse_conv_bn_eval, fuse_linear_bn_eval: Fusion only for eval!; call eval() first"
        )
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError(
            "fuse_conv_bn_eval, fuse_linear_bn_eval: fusion needs running statistics; use "
            "track_running_stats=True"
        )
    out = copy.deepcopy(layer)
    statistics = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    out.weight, out.bias = fuse_conv_bn_weights(layer.weight, layer.bias, *statistics, transpose)
    return out


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Make a convolution that does the work of a convolution and a batch normalization in evaluation.

    Args:
        conv: the convolution.
        bn: the batch normalization behind it, with running statistics.
        transpose: whether `conv` is a transposed convolution.
    Returns: a copy of `conv` with other weight and bias.
    Raises: AssertionError if a module is in training mode, or there are no running statistics.

    Example:
        >>> conv, bn = flambeau.nn.Conv1d(1, 2, 3).eval(), flambeau.nn.BatchNorm1d(2).eval()
        >>> flambeau.nn.utils.fuse_conv_bn_eval(conv, bn)
        Conv1d(1, 2, kernel_size=(3,), stride=(1,))
    """
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
    """Compute weight and bias of a linear layer that does the work of a batch normalization behind it, too.

    Args:
        linear_w: the weight of the linear layer.
        linear_b: its bias, or None.
        bn_rm: the running mean of the normalization.
        bn_rv: its running variance.
        bn_eps: what it adds to the variance.
        bn_w: its scale.
        bn_b: its shift.
    Returns: the two new parameters.
    See also: fuse_conv_bn_weights

    Example:
        >>> w, zero, one = flambeau.ones(1, 1), flambeau.zeros(1), flambeau.ones(1)
        >>> flambeau.nn.utils.fuse_linear_bn_weights(w, zero, one, one, 0.0, 2 * one, zero)[1].detach()
        tensor([-2.])
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Make a linear layer that does the work of a linear layer and a batch normalization in evaluation.

    Args:
        linear: the linear layer.
        bn: the batch normalization behind it, with running statistics.
    Returns: a copy of `linear` with other weight and bias.
    Raises: AssertionError if a module is in training mode, the numbers of features differ, or there are no
        running statistics.

    Example:
        >>> linear, bn = flambeau.nn.Linear(2, 3).eval(), flambeau.nn.BatchNorm1d(3).eval()
        >>> flambeau.nn.utils.fuse_linear_bn_eval(linear, bn)
        Linear(in_features=2, out_features=3, bias=True)
    """
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            f"fuse: expected bn of {linear.out_features} features, as linear has, or 1, got {bn.num_features}"
        )
    return _fused(linear, bn, False)


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a module without drawing initial values, so that its parameters hold any numbers.

    Args:
        module_cls: the class of the module, whose constructor takes `device`.
        *args: its arguments.
        **kwargs: its arguments by keyword.
    Returns: the module.
    Raises: RuntimeError for a value that is not a class of modules, or takes no `device`.

    Example:
        >>> flambeau.nn.utils.skip_init(flambeau.nn.Linear, 2, 3)
        Linear(in_features=2, out_features=3, bias=True)
    """
    if not issubclass(module_cls, flambeau.nn.Module):
        raise RuntimeError(f"skip_init: expected a class of modules, got {module_cls.__name__}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(f"skip_init: {module_cls.__name__} has no parameter 'device'")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
