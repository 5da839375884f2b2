"""Activations with their in-place switch, and what is made of softmax."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._arguments.checks import require_tensors
from flambeau._C import _nn
from flambeau._loading.documentation import described_by

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]

relu_ = flambeau.relu_
selu_ = flambeau.selu_
celu_ = flambeau.celu_
threshold_ = flambeau.threshold_
rrelu_ = flambeau.rrelu_
elu_ = _nn.elu_
hardtanh_ = _nn.hardtanh_
leaky_relu_ = _nn.leaky_relu_
gelu = _nn.gelu
softplus = _nn.softplus
softsign = _nn.softsign
tanhshrink = _nn.tanhshrink
logsigmoid = _nn.log_sigmoid
hardshrink = flambeau.hardshrink
prelu = flambeau.prelu


@described_by(flambeau.sigmoid)
def sigmoid(input: Tensor) -> Tensor:
    """Apply the logistic function to each element."""
    return input.sigmoid()


@described_by(flambeau.tanh)
def tanh(input: Tensor) -> Tensor:
    """Apply the hyperbolic tangent to each element."""
    return input.tanh()


@described_by(flambeau.relu)
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Replace negative elements by 0.

    Gradient: 1 for positive elements, 0 for others, also at 0.
    """
    return flambeau.relu_(input) if inplace else flambeau.relu(input)


@described_by(_nn.relu6)
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Limit each element to [0, 6].

    Gradient: 1 within (0, 6), 0 elsewhere, also at 0 and 6.
    """
    return _nn.relu6_(input) if inplace else _nn.relu6(input)


@described_by(_nn.leaky_relu)
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Multiply negative elements by a small slope.

    Gradient: 1 for positive elements, `negative_slope` for others, also at 0.
    """
    return (_nn.leaky_relu_ if inplace else _nn.leaky_relu)(input, negative_slope)


@described_by(_nn.elu)
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Apply the exponential linear unit to each element.

    Formula: result = input if input > 0 else alpha * (e^input - 1)
    """
    return (_nn.elu_ if inplace else _nn.elu)(input, alpha)


@described_by(flambeau.selu)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply the scaled exponential linear unit to each element.

    Weights of variance 1 / fan_in (`nn.init.kaiming_normal_` with nonlinearity "linear") then keep mean 0 and
    variance 1 from layer to layer.
    """
    return flambeau.selu_(input) if inplace else flambeau.selu(input)


@described_by(flambeau.celu)
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Apply the continuously differentiable exponential linear unit to each element.

    Args:
        alpha: the negative of the limit for large negative elements, not 0. Default: 1.
    """
    return (flambeau.celu_ if inplace else flambeau.celu)(input, alpha)


@described_by(flambeau.rrelu)
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Multiply negative elements by slopes that are drawn at random in training.

    Args:
        training: whether to draw each slope from U(lower, upper); False takes (lower + upper) / 2 for all.
    Raises: RuntimeError if `lower` is greater than `upper`.
    """
    if lower > upper:
        raise RuntimeError(f"rrelu: expected a lower bound up to the upper bound, got {lower} and {upper}")
    return (flambeau.rrelu_ if inplace else flambeau.rrelu)(input, lower, upper, training)


@described_by(_nn.silu)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply the sigmoid-weighted linear unit, or swish, to each element."""
    return _nn.silu_(input) if inplace else _nn.silu(input)


@described_by(_nn.mish)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Multiply each element by the hyperbolic tangent of its softplus."""
    return _nn.mish_(input) if inplace else _nn.mish(input)


@described_by(_nn.hardsigmoid)
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply a piecewise linear approximation of the logistic function to each element.

    Gradient: 1/6 within (-3, 3), 0 elsewhere, also at -3 and 3.
    """
    return _nn.hardsigmoid_(input) if inplace else _nn.hardsigmoid(input)


@described_by(_nn.hardswish)
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply a piecewise quadratic approximation of swish to each element."""
    return _nn.hardswish_(input) if inplace else _nn.hardswish(input)


@described_by(_nn.hardtanh)
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Limit each element to [min_val, max_val].

    Args:
        min_val: the lower bound. An integer input takes it without its fraction.
        max_val: the upper bound, not below `min_val`.
    Gradient: 1 within the bounds, 0 elsewhere, also at the bounds.
    Raises: ValueError if `min_val` is greater than `max_val`.
    """
    require_tensors("hardtanh", input=input)
    if min_val > max_val:
        raise ValueError(f"hardtanh: expected min_val <= max_val, got {min_val} and {max_val}")
    if not input.is_floating_point():
        min_val, max_val = int(min_val), int(max_val)
    return (_nn.hardtanh_ if inplace else _nn.hardtanh)(input, min_val, max_val)


@described_by(flambeau.threshold)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Replace elements that do not exceed a threshold by a value.

    Gradient: 1 above the threshold, 0 elsewhere, also at the threshold.
    """
    return (flambeau.threshold_ if inplace else flambeau.threshold)(input, threshold, value)


@described_by(_nn.softshrink)
def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Move each element towards 0 by `lambd`; elements within [-lambd, lambd] become 0."""
    return _nn.softshrink(input, lambd) if out is None else _nn.softshrink(input, lambd, out=out)


@described_by(_nn.glu)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Multiply the first half along a dimension by the logistic function of the second half.

    Raises: RuntimeError for a tensor without dimensions.
    """
    if input.dim() == 0:
        raise RuntimeError("glu: expected at least one dimension, got a tensor without")
    return _nn.glu(input, dim)


def _dim_of(input: Tensor, dim: int | None, name: str, stacklevel: int) -> int:
    """Return `dim`, or PyTorch's old default with its warning."""
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} is deprecated; pass dim",
        stacklevel=stacklevel,
    )
    return 0 if input.dim() in (0, 1, 3) else 1


@described_by(flambeau.softmax)
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Divide the exponentials along a dimension by their sum.

    Args:
        dim: the dimension along which the results sum to 1. None is deprecated: it warns, and means 0 for an
            input of 0, 1 or 3 dimensions, else 1.
        dtype: the dtype to which the input is cast first, such as float32 for sums without overflow.
    Shape: The result has the shape of `input`.
    """
    return flambeau.softmax(input, _dim_of(input, dim, "softmax", _stacklevel), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Divide the exponentials of the negated input along a dimension by their sum.

    Formula: result = e^-input / sum along dim of e^-input
    Args:
        input: the scores; the smallest one gets the largest result.
        dim: the dimension along which the results sum to 1. None is deprecated: it warns, and means 0 for an
            input of 0, 1 or 3 dimensions, else 1.
        _stacklevel: the frame that a warning about a missing `dim` names.
        dtype: the dtype of the result. None means the dtype of the input.
    Shape: The result has the shape of `input`.
    See also: softmax

    Example:
        >>> flambeau.nn.functional.softmin(flambeau.tensor([0.0, 1.0, 2.0]), dim=0)
        tensor([0.6652, 0.2447, 0.0900])
    """
    return flambeau.softmax(-input, _dim_of(input, dim, "softmin", _stacklevel), dtype=dtype)


@described_by(flambeau.log_softmax)
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Compute the logarithm of softmax along a dimension.

    Args:
        dim: the dimension along which the exponentials of the results sum to 1. None is deprecated: it warns,
            and
            means 0 for an input of 0, 1 or 3 dimensions, else 1.
        dtype: the dtype to which the input is cast first, such as float32 for sums without overflow.
    Shape: The result has the shape of `input`.
    """
    return flambeau.log_softmax(input, _dim_of(input, dim, "log_softmax", _stacklevel), dtype=dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Draw from the Gumbel-softmax distribution, a differentiable form of drawing one class.

    Formula: result = softmax((logits + g) / tau), g = -ln(e), e exponentially distributed with rate 1
    Args:
        logits: unnormalized log probabilities of the classes.
        tau: the temperature, above 0: small values give results near one-hot vectors.
        hard: whether to return one-hot vectors; their gradient is that of the soft result.
        eps: deprecated; it has no effect.
        dim: the dimension of the classes.
    Shape: The result has the shape of `logits`.
    Source: Jang, Gu & Poole 2017, "Categorical Reparameterization with Gumbel-Softmax"; Maddison, Mnih & Teh
        2017, "The Concrete Distribution".

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.functional.gumbel_softmax(flambeau.zeros(2, 3), hard=True)
        tensor([[0., 0., 1.],
                [0., 1., 0.]])
    """
    if eps != 1e-10:
        warnings.warn("`eps` has no effect and is deprecated", stacklevel=2)
    noise = -flambeau.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    place = soft.max(dim, keepdim=True)[1]
    chosen = flambeau.zeros_like(logits).scatter_(dim, place, 1.0)
    return chosen - soft.detach() + soft
