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


_OPTIONS = "stride, padding, dilation, groups: of the convolution."
_INPUT_DOC = """The gradient of conv{0}d for its input.

    Args:
        input_size: the shape of `input`.
        weight: of the convolution.
        grad_output: gradient of the result.
        {1}
    """
_WEIGHT_DOC = """The gradient of conv{0}d for its weight.

    Args:
        input: of the convolution.
        weight_size: shape of the weight.
        grad_output: gradient of the result.
        {1}
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
        made.__name__, made.__doc__ = f"conv{dims}d_{kind}", doc.format(dims, _OPTIONS)
    return of_input, of_weight


conv1d_input, conv1d_weight = _pair(1)
conv2d_input, conv2d_weight = _pair(2)
conv3d_input, conv3d_weight = _pair(3)

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]
