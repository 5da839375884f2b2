"""Gradients of convolutions, as functions of what backward is given."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.modules.conv import as_tuple


def _gradients(
    dims: int, input: Tensor, weight: Tensor, grad_output: Tensor, options: tuple[Any, ...], mask: list[bool]
) -> Any:
    stride, padding, dilation = (list(as_tuple(value, dims)) for value in options[:3])
    steps = (stride, padding, dilation, False, [0] * dims, options[3], mask)
    return flambeau.convolution_backward(grad_output, input, weight, False, *steps)


_OPTIONS = """
    grad_output: the gradient of the convolution's result.
    stride: the steps of the window; one number stands for all.
    padding: the number of zeros added at both ends; one number stands for all.
    dilation: the distance between the elements of the window; one number stands for all.
    groups: the number of groups of channels."""
_INPUT_DOC = """Compute the gradient of `conv{0}d` for its input.

Args:
    input_size: the shape of the convolution's input.
    weight: its weight.{1}
Returns: the gradient, of shape `input_size`.
See also: conv{0}d_weight, nn.functional.conv{0}d

Example:
    >>> w, g = flambeau.ones(1, 1{2}, 2), flambeau.ones(1, 1{2}, 2)
    >>> flambeau.nn.grad.conv{0}d_input((1, 1{2}, 3), w, g).flatten()
    tensor([1., 2., 1.])
"""
_WEIGHT_DOC = """Compute the gradient of `conv{0}d` for its weight.

Args:
    input: the input of the convolution.
    weight_size: the shape of its weight.{1}
Returns: the gradient, of shape `weight_size`.
See also: conv{0}d_input, nn.functional.conv{0}d

Example:
    >>> x, g = flambeau.arange(3.0).reshape(1, 1{2}, 3), flambeau.ones(1, 1{2}, 2)
    >>> flambeau.nn.grad.conv{0}d_weight(x, (1, 1{2}, 2), g).flatten()
    tensor([1., 3.])
"""


def _pair(dims: int) -> tuple[Any, Any]:
    """Make both functions for a number of dimensions."""

    def of_input(
        input_size: Any,
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        input = grad_output.new_empty(1).expand(tuple(input_size))
        options = (stride, padding, dilation, groups)
        return _gradients(dims, input, weight, grad_output, options, [True, False, False])[0]

    def of_weight(
        input: Tensor,
        weight_size: Any,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        weight = grad_output.new_empty(1).expand(tuple(weight_size))
        options = (stride, padding, dilation, groups)
        return _gradients(dims, input, weight, grad_output, options, [False, True, False])[1]

    for made, kind, doc in ((of_input, "input", _INPUT_DOC), (of_weight, "weight", _WEIGHT_DOC)):
        made.__name__, made.__doc__ = f"conv{dims}d_{kind}", doc.format(dims, _OPTIONS, ", 1" * (dims - 1))
    return of_input, of_weight


conv1d_input, conv1d_weight = _pair(1)
conv2d_input, conv2d_weight = _pair(2)
conv3d_input, conv3d_weight = _pair(3)

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]
