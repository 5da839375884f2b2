"""Activations with their in-place switch, and what is made of softmax."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._arguments.checks import require_tensors
from flambeau._C import _nn

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


def sigmoid(input: Tensor) -> Tensor:
    """Logistic function: 1 / (1 + e^-x)."""
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return input.tanh()


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return flambeau.relu_(input) if inplace else flambeau.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return _nn.relu6_(input) if inplace else _nn.relu6(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """X where positive, negative_slope * x elsewhere."""
    return (_nn.leaky_relu_ if inplace else _nn.leaky_relu)(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """X where positive, alpha (e^x - 1) elsewhere."""
    return (_nn.elu_ if inplace else _nn.elu)(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Scaled exponential linear unit; see `flambeau.selu`."""
    return flambeau.selu_(input) if inplace else flambeau.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(0, x) + min(0, alpha (e^(x / alpha) - 1))."""
    return (flambeau.celu_ if inplace else flambeau.celu)(input, alpha)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Rectifier with random slopes from [lower, upper) in training, their middle otherwise."""
    if lower > upper:
        raise RuntimeError(f"rrelu: expected a lower bound up to the upper bound, got {lower} and {upper}")
    return (flambeau.rrelu_ if inplace else flambeau.rrelu)(input, lower, upper, training)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """X / (1 + e^-x)."""
    return _nn.silu_(input) if inplace else _nn.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """X tanh(softplus(x))."""
    return _nn.mish_(input) if inplace else _nn.mish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6."""
    return _nn.hardsigmoid_(input) if inplace else _nn.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """X min(max(x + 3, 0), 6) / 6."""
    return _nn.hardswish_(input) if inplace else _nn.hardswish(input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Limit elements to [min_val, max_val]."""
    require_tensors("hardtanh", input=input)
    if min_val > max_val:
        raise ValueError("hardtanh: expected min_val <= max_val")
    if not input.is_floating_point():
        min_val, max_val = int(min_val), int(max_val)
    return (_nn.hardtanh_ if inplace else _nn.hardtanh)(input, min_val, max_val)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """X where it exceeds `threshold`, `value` elsewhere."""
    return (flambeau.threshold_ if inplace else flambeau.threshold)(input, threshold, value)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Shrink elements towards 0 by `lambd`; those within become 0."""
    return _nn.softshrink(input, lambd) if out is None else _nn.softshrink(input, lambd, out=out)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """First half along `dim`, times the sigmoid of the second half."""
    if input.dim() == 0:
        raise RuntimeError("glu: a scalar has no two halves")
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


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Softmax along `dim`: e^x / sum e^x; `dtype` casts first."""
    return flambeau.softmax(input, _dim_of(input, dim, "softmax", _stacklevel), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Softmax of -x along `dim`."""
    return flambeau.softmax(-input, _dim_of(input, dim, "softmin", _stacklevel), dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Logarithm of softmax along `dim`, without overflow."""
    return flambeau.log_softmax(input, _dim_of(input, dim, "log_softmax", _stacklevel), dtype=dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Draw from the Gumbel-softmax distribution (Jang et al. 2017; Maddison et al. 2017).

    Args:
        logits: unnormalised log probabilities.
        tau: temperature.
        hard: return one-hot rows whose gradient is that of the soft ones.
        eps: has no effect.
        dim: where the probabilities lie.
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
