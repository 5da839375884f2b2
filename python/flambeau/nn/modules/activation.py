"""Activations as layers: each class names its function and the arguments it keeps."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.nn import functional as F
from flambeau.nn.modules.functional_layer import REQUIRED, FunctionalLayer
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


class ReLU(FunctionalLayer):
    """max(x, 0). See `flambeau.relu`."""

    function, options = "relu", {"inplace": False}


class LeakyReLU(FunctionalLayer):
    """x where positive, negative_slope * x elsewhere."""

    function, options = "leaky_relu", {"negative_slope": 0.01, "inplace": False}


class ELU(FunctionalLayer):
    """x where positive, alpha * (e^x - 1) elsewhere."""

    function, options = "elu", {"alpha": 1.0, "inplace": False}


class SELU(FunctionalLayer):
    """Scaled exponential linear unit."""

    function, options = "selu", {"inplace": False}


class CELU(FunctionalLayer):
    """Continuously differentiable exponential linear unit."""

    function, options = "celu", {"alpha": 1.0, "inplace": False}


class GELU(FunctionalLayer):
    """Gaussian error linear unit; approximate="tanh" for the tanh formula."""

    function, options = "gelu", {"approximate": "none"}


class SiLU(FunctionalLayer):
    """x * sigmoid(x)."""

    function, options = "silu", {"inplace": False}


class Mish(FunctionalLayer):
    """x * tanh(softplus(x))."""

    function, options = "mish", {"inplace": False}


class Sigmoid(Module):
    """1 / (1 + e^-x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return flambeau.sigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return flambeau.tanh(input)


class LogSigmoid(FunctionalLayer):
    """ln(sigmoid(x))."""

    function, options = "logsigmoid", {}


class Hardtanh(FunctionalLayer):
    """Limit to [min_val, max_val]."""

    function = "hardtanh"
    options = {"min_val": -1.0, "max_val": 1.0, "inplace": False, "min_value": None, "max_value": None}
    unused = ("min_value", "max_value")
    shown: tuple[str, ...] = ("min_val", "max_val", "inplace")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in self.unused:  # the older names
            older = vars(self).pop(name)
            if older is not None:
                warnings.warn(
                    f"keyword argument `{name}` is deprecated: use `{name[:7]}`", FutureWarning, stacklevel=2
                )
                setattr(self, name[:7], older)
        if not self.max_val > self.min_val:
            raise AssertionError(
                f"Hardtanh: expected max_val above min_val, got {self.max_val}, {self.min_val}"
            )


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)."""

    shown = ("inplace",)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Hardsigmoid(FunctionalLayer):
    """min(max(x + 3, 0), 6) / 6."""

    function, options = "hardsigmoid", {"inplace": False}


class Hardswish(FunctionalLayer):
    """x * hardsigmoid(x)."""

    function, options = "hardswish", {"inplace": False}


class Softplus(FunctionalLayer):
    """ln(1 + e^(beta x)) / beta."""

    function, options = "softplus", {"beta": 1.0, "threshold": 20.0}


class Softsign(FunctionalLayer):
    """x / (1 + |x|)."""

    function, options = "softsign", {}


class Tanhshrink(FunctionalLayer):
    """x - tanh(x)."""

    function, options = "tanhshrink", {}


class Softshrink(FunctionalLayer):
    """Shrink towards 0 by lambd."""

    function, options = "softshrink", {"lambd": 0.5}

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(FunctionalLayer):
    """0 within [-lambd, lambd], x elsewhere."""

    function, options = "hardshrink", {"lambd": 0.5}

    def extra_repr(self) -> str:
        return str(self.lambd)


class GLU(FunctionalLayer):
    """Gated linear unit over halves of `dim`."""

    function, options = "glu", {"dim": -1}


class Softmax(FunctionalLayer):
    """Softmax along `dim`."""

    function, options = "softmax", {"dim": None}


class LogSoftmax(FunctionalLayer):
    """Logarithm of softmax along `dim`."""

    function, options = "log_softmax", {"dim": None}


class Softmin(FunctionalLayer):
    """Softmax of -x along `dim`."""

    function, options = "softmin", {"dim": None}


class Threshold(FunctionalLayer):
    """x where above `threshold`, `value` elsewhere."""

    function, options = (
        "threshold",
        {"threshold": REQUIRED, "value": REQUIRED, "inplace": False},
    )


class RReLU(FunctionalLayer):
    """x where positive, a x elsewhere: in training a is drawn from [lower, upper), else it is their mean.

    Source: Xu et al. 2015, "Empirical evaluation of rectified activations".
    """

    function = "rrelu"
    options = {"lower": 1 / 8, "upper": 1 / 3, "inplace": False}
    draws = True


class Softmax2d(Module):
    """Softmax over the channels of ``(batch, channels, height, width)``, batch may be missing."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected 3 or 4 dimensions, got {input.dim()}")
        return F.softmax(input, -3)


class PReLU(Module):
    """x where positive, a learned multiple elsewhere.

    Args:
        num_parameters: 1, or one slope per channel (dimension 1).
        init: the slope at first.
    Source: He et al. 2015, "Delving deep into rectifiers".
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(flambeau.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Return to the first slope."""
        with flambeau.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


__getattr__, __dir__ = attributes(__name__)
