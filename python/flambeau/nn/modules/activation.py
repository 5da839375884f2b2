"""Activations and dropout as layers: each class names its function and the arguments it keeps."""

from __future__ import annotations

import inspect
from typing import Any

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module


class _Functional(Module):
    """A layer that calls `function` with its constructor's arguments.

    Subclasses declare `function` and `options`: names and defaults, in the constructor's order.
    """

    function = staticmethod(F.relu)
    options: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        bound = self.signature().bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    @classmethod
    def signature(cls) -> inspect.Signature:
        """The constructor's signature."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(n, kind, default=d) for n, d in cls.options.items()])

    def __init_subclass__(cls) -> None:
        cls.__signature__ = cls.signature()  # type: ignore[attr-defined]

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return type(self).function(input, **{name: getattr(self, name) for name in self.options})

    def extra_repr(self) -> str:
        shown = ((n, getattr(self, n)) for n in self.options)
        return ", ".join(f"{n}={v!r}" for n, v in shown if not (n == "inplace" and not v))


class ReLU(_Functional):
    """max(x, 0). See `flambeau.relu`."""

    function, options = staticmethod(F.relu), {"inplace": False}


class ReLU6(_Functional):
    """min(max(x, 0), 6)."""

    function, options = staticmethod(F.relu6), {"inplace": False}


class LeakyReLU(_Functional):
    """x where positive, negative_slope * x elsewhere."""

    function, options = staticmethod(F.leaky_relu), {"negative_slope": 0.01, "inplace": False}


class ELU(_Functional):
    """x where positive, alpha * (e^x - 1) elsewhere."""

    function, options = staticmethod(F.elu), {"alpha": 1.0, "inplace": False}


class SELU(_Functional):
    """Scaled exponential linear unit."""

    function, options = staticmethod(F.selu), {"inplace": False}


class CELU(_Functional):
    """Continuously differentiable exponential linear unit."""

    function, options = staticmethod(F.celu), {"alpha": 1.0, "inplace": False}


class GELU(_Functional):
    """Gaussian error linear unit; approximate="tanh" for the tanh formula."""

    function, options = staticmethod(F.gelu), {"approximate": "none"}


class SiLU(_Functional):
    """x * sigmoid(x)."""

    function, options = staticmethod(F.silu), {"inplace": False}


class Mish(_Functional):
    """x * tanh(softplus(x))."""

    function, options = staticmethod(F.mish), {"inplace": False}


class Sigmoid(_Functional):
    """1 / (1 + e^-x)."""

    function, options = staticmethod(F.sigmoid), {}


class Tanh(_Functional):
    """Hyperbolic tangent."""

    function, options = staticmethod(F.tanh), {}


class LogSigmoid(_Functional):
    """ln(sigmoid(x))."""

    function, options = staticmethod(F.logsigmoid), {}


class Hardtanh(_Functional):
    """Limit to [min_val, max_val]."""

    function, options = staticmethod(F.hardtanh), {"min_val": -1.0, "max_val": 1.0, "inplace": False}


class Hardsigmoid(_Functional):
    """min(max(x + 3, 0), 6) / 6."""

    function, options = staticmethod(F.hardsigmoid), {"inplace": False}


class Hardswish(_Functional):
    """x * hardsigmoid(x)."""

    function, options = staticmethod(F.hardswish), {"inplace": False}


class Softplus(_Functional):
    """ln(1 + e^(beta x)) / beta."""

    function, options = staticmethod(F.softplus), {"beta": 1.0, "threshold": 20.0}


class Softsign(_Functional):
    """x / (1 + |x|)."""

    function, options = staticmethod(F.softsign), {}


class Tanhshrink(_Functional):
    """x - tanh(x)."""

    function, options = staticmethod(F.tanhshrink), {}


class Softshrink(_Functional):
    """Shrink towards 0 by lambd."""

    function, options = staticmethod(F.softshrink), {"lambd": 0.5}


class Hardshrink(_Functional):
    """0 within [-lambd, lambd], x elsewhere."""

    function, options = staticmethod(F.hardshrink), {"lambd": 0.5}


class GLU(_Functional):
    """Gated linear unit over halves of `dim`."""

    function, options = staticmethod(F.glu), {"dim": -1}


class Softmax(_Functional):
    """Softmax along `dim`."""

    function, options = staticmethod(F.softmax), {"dim": None}


class LogSoftmax(_Functional):
    """Logarithm of softmax along `dim`."""

    function, options = staticmethod(F.log_softmax), {"dim": None}


class Softmin(_Functional):
    """Softmax of -x along `dim`."""

    function, options = staticmethod(F.softmin), {"dim": None}


class Dropout(_Functional):
    """In training set elements to 0 with probability `p` and scale the others by 1 / (1 - p).

    Source: Srivastava et al. 2014, "Dropout".
    """

    function, options = staticmethod(F.dropout), {"p": 0.5, "inplace": False}

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        super().__init__(p, inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Drop elements, in training."""
        return F.dropout(input, self.p, self.training, self.inplace)
