"""Activations as layers: each class names its function and the arguments it keeps."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.documentation import described_by
from flambeau._loading.lazy import attributes
from flambeau.nn import functional as F
from flambeau.nn.modules.functional_layer import REQUIRED, FunctionalLayer
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


class ReLU(FunctionalLayer):
    """Rectifier that replaces negative elements by 0.

    Shape: ``(*)`` to the same.
    See also: Softplus, LeakyReLU

    Example:
        >>> flambeau.nn.ReLU()(flambeau.tensor([-1.0, 0.0, 2.0]))
        tensor([0., 0., 2.])
    """

    function, options = "relu", {"inplace": False}


class LeakyReLU(FunctionalLayer):
    """Rectifier with a small fixed slope for negative elements.

    Shape: ``(*)`` to the same.
    See also: PReLU, RReLU

    Example:
        >>> flambeau.nn.LeakyReLU(0.1)(flambeau.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.1000,  0.0000,  2.0000])
    """

    function, options = "leaky_relu", {"negative_slope": 0.01, "inplace": False}


class ELU(FunctionalLayer):
    """Exponential linear unit, which approaches -alpha for large negative elements.

    Shape: ``(*)`` to the same.
    See also: CELU, SELU

    Example:
        >>> flambeau.nn.ELU()(flambeau.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.6321,  0.0000,  2.0000])
    """

    function, options = "elu", {"alpha": 1.0, "inplace": False}


class SELU(FunctionalLayer):
    """Scaled exponential linear unit of self-normalizing networks.

    Shape: ``(*)`` to the same.
    See also: AlphaDropout

    Example:
        >>> flambeau.nn.SELU()(flambeau.tensor([-1.0, 0.0, 2.0]))
        tensor([-1.1113,  0.0000,  2.1014])
    """

    function, options = "selu", {"inplace": False}


class CELU(FunctionalLayer):
    """Exponential linear unit whose derivative is continuous for every alpha.

    Shape: ``(*)`` to the same.
    See also: ELU

    Example:
        >>> flambeau.nn.CELU(2.0)(flambeau.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.7869,  0.0000,  2.0000])
    """

    function, options = "celu", {"alpha": 1.0, "inplace": False}


class GELU(FunctionalLayer):
    """Gaussian error linear unit: each element times the probability that a normal number is smaller.

    Shape: ``(*)`` to the same.
    See also: SiLU

    Example:
        >>> flambeau.nn.GELU()(flambeau.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.1587,  0.0000,  1.9545])
    """

    function, options = "gelu", {"approximate": "none"}


class SiLU(FunctionalLayer):
    """Sigmoid-weighted linear unit, also called swish.

    Shape: ``(*)`` to the same.
    See also: Hardswish, GELU

    Example:
        >>> flambeau.nn.SiLU()(flambeau.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.2689,  0.0000,  1.7616])
    """

    function, options = "silu", {"inplace": False}


class Mish(FunctionalLayer):
    """Smooth unit: each element times the hyperbolic tangent of its softplus.

    Shape: ``(*)`` to the same.
    See also: SiLU

    Example:
        >>> flambeau.nn.Mish()(flambeau.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.3034,  0.0000,  1.9440])
    """

    function, options = "mish", {"inplace": False}


@described_by("sigmoid")
class Sigmoid(Module):
    """Logistic function of each element, in (0, 1).

    Formula: result = 1 / (1 + e^-input)
    Shape: ``(*)`` to the same.
    See also: LogSigmoid, Hardsigmoid

    Example:
        >>> flambeau.nn.Sigmoid()(flambeau.tensor([-1.0, 0.0, 2.0]))
        tensor([0.2689, 0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return flambeau.sigmoid(input)


@described_by("tanh")
class Tanh(Module):
    """Hyperbolic tangent of each element, in (-1, 1).

    Formula: result = (e^input - e^-input) / (e^input + e^-input)
    Shape: ``(*)`` to the same.
    See also: Softsign, Hardtanh

    Example:
        >>> flambeau.nn.Tanh()(flambeau.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.7616,  0.0000,  0.9640])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return flambeau.tanh(input)


class LogSigmoid(FunctionalLayer):
    """Logarithm of the logistic function, without overflow.

    Shape: ``(*)`` to the same.
    See also: Sigmoid

    Example:
        >>> flambeau.nn.LogSigmoid()(flambeau.tensor([-100.0, 0.0]))
        tensor([-100.0000,   -0.6931])
    """

    function, options = "logsigmoid", {}


class Hardtanh(FunctionalLayer):
    """Limits of each element to [min_val, max_val].

    Args:
        min_val: the lower bound.
        max_val: the upper bound, above `min_val`.
        min_value: deprecated alias of `min_val`.
        max_value: deprecated alias of `max_val`.
    Shape: ``(*)`` to the same.
    Raises: AssertionError if `max_val` is not above `min_val`.
    See also: ReLU6

    Example:
        >>> flambeau.nn.Hardtanh()(flambeau.tensor([-2.0, 0.5, 3.0]))
        tensor([-1.0000,  0.5000,  1.0000])
    """

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
    """Rectifier that also limits elements to at most 6.

    Formula: result = min(max(input, 0), 6)
    Shape: ``(*)`` to the same.
    Gradient: 1 within (0, 6), 0 elsewhere, also at 0 and 6.
    Source: Krizhevsky 2010, "Convolutional Deep Belief Networks on CIFAR-10".
    See also: Hardtanh

    Example:
        >>> flambeau.nn.ReLU6()(flambeau.tensor([-1.0, 3.0, 8.0]))
        tensor([0., 3., 6.])
    """

    shown = ("inplace",)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Hardsigmoid(FunctionalLayer):
    """Piecewise linear approximation of the logistic function.

    Shape: ``(*)`` to the same.
    See also: Sigmoid

    Example:
        >>> flambeau.nn.Hardsigmoid()(flambeau.tensor([-4.0, 0.0, 1.5]))
        tensor([0.0000, 0.5000, 0.7500])
    """

    function, options = "hardsigmoid", {"inplace": False}


class Hardswish(FunctionalLayer):
    """Piecewise quadratic approximation of swish.

    Shape: ``(*)`` to the same.
    See also: SiLU

    Example:
        >>> flambeau.nn.Hardswish()(flambeau.tensor([-1.0, 0.0, 1.5]))
        tensor([-0.3333,  0.0000,  1.1250])
    """

    function, options = "hardswish", {"inplace": False}


class Softplus(FunctionalLayer):
    """Smooth rectifier, ln(1 + e^x) for the default `beta`, without overflow.

    Shape: ``(*)`` to the same.
    See also: ReLU

    Example:
        >>> flambeau.nn.Softplus()(flambeau.tensor([-1.0, 0.0, 30.0]))
        tensor([ 0.3133,  0.6931, 30.0000])
    """

    function, options = "softplus", {"beta": 1.0, "threshold": 20.0}


class Softsign(FunctionalLayer):
    """Element divided by one plus its magnitude; results lie in (-1, 1).

    Shape: ``(*)`` to the same.
    See also: Tanh

    Example:
        >>> flambeau.nn.Softsign()(flambeau.tensor([-1.0, 0.0, 3.0]))
        tensor([-0.5000,  0.0000,  0.7500])
    """

    function, options = "softsign", {}


class Tanhshrink(FunctionalLayer):
    """Difference of each element and its hyperbolic tangent.

    Shape: ``(*)`` to the same.
    See also: Softshrink

    Example:
        >>> flambeau.nn.Tanhshrink()(flambeau.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.2384,  0.0000,  1.0360])
    """

    function, options = "tanhshrink", {}


class Softshrink(FunctionalLayer):
    """Soft threshold: elements move towards 0 by `lambd`, and those nearer become 0.

    Shape: ``(*)`` to the same.
    See also: Hardshrink

    Example:
        >>> flambeau.nn.Softshrink(1.0)(flambeau.tensor([-2.0, 0.5, 3.0]))
        tensor([-1.,  0.,  2.])
    """

    function, options = "softshrink", {"lambd": 0.5}

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(FunctionalLayer):
    """Hard threshold: elements within [-lambd, lambd] become 0.

    Shape: ``(*)`` to the same.
    See also: Softshrink

    Example:
        >>> flambeau.nn.Hardshrink(1.0)(flambeau.tensor([-2.0, 0.5, 3.0]))
        tensor([-2.,  0.,  3.])
    """

    function, options = "hardshrink", {"lambd": 0.5}

    def extra_repr(self) -> str:
        return str(self.lambd)


class GLU(FunctionalLayer):
    """Gated linear unit: the first half along a dimension, times the logistic function of the second half.

    Shape: ``(*, 2 n, *)`` to ``(*, n, *)``, the halved size along `dim`.
    See also: SiLU

    Example:
        >>> flambeau.nn.GLU()(flambeau.tensor([[1.0, 2.0, 0.0, 100.0]]))
        tensor([[0.5000, 2.0000]])
    """

    function, options = "glu", {"dim": -1}


class Softmax(FunctionalLayer):
    """Exponentials along a dimension, divided by their sum.

    Shape: ``(*)`` to the same; results lie in [0, 1] and sum to 1 along `dim`.
    See also: LogSoftmax, Softmax2d, Softmin

    Example:
        >>> flambeau.nn.Softmax(dim=1)(flambeau.tensor([[0.0, 1.0, 2.0]]))
        tensor([[0.0900, 0.2447, 0.6652]])
    """

    function, options = "softmax", {"dim": None}


class LogSoftmax(FunctionalLayer):
    """Logarithm of softmax along a dimension, exact also where softmax is 0 in its dtype.

    Shape: ``(*)`` to the same.
    See also: Softmax, NLLLoss

    Example:
        >>> flambeau.nn.LogSoftmax(dim=1)(flambeau.tensor([[0.0, 1.0, 200.0]]))
        tensor([[-200., -199.,    0.]])
    """

    function, options = "log_softmax", {"dim": None}


class Softmin(FunctionalLayer):
    """Exponentials of the negated input along a dimension, divided by their sum.

    Shape: ``(*)`` to the same; results lie in [0, 1] and sum to 1 along `dim`.
    See also: Softmax

    Example:
        >>> flambeau.nn.Softmin(dim=1)(flambeau.tensor([[0.0, 1.0, 2.0]]))
        tensor([[0.6652, 0.2447, 0.0900]])
    """

    function, options = "softmin", {"dim": None}


class Threshold(FunctionalLayer):
    """Replacement of elements that do not exceed a threshold by a value.

    Shape: ``(*)`` to the same.
    See also: ReLU

    Example:
        >>> flambeau.nn.Threshold(1.0, -5.0)(flambeau.tensor([0.0, 1.0, 2.0]))
        tensor([-5., -5.,  2.])
    """

    function, options = (
        "threshold",
        {"threshold": REQUIRED, "value": REQUIRED, "inplace": False},
    )


class RReLU(FunctionalLayer):
    """Rectifier whose slopes for negative elements are drawn at random in training.

    In training each negative element has a slope from U(lower, upper); in evaluation all have the mean of
    both bounds.

    Args:
        lower: the lower bound of the slope.
        upper: the upper bound of the slope, at least `lower`.
    Shape: ``(*)`` to the same.
    See also: LeakyReLU, PReLU

    Example:
        >>> flambeau.nn.RReLU(0.1, 0.3).eval()(flambeau.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.2000,  0.0000,  2.0000])
    """

    function = "rrelu"
    options = {"lower": 1 / 8, "upper": 1 / 3, "inplace": False}
    draws = True


class Softmax2d(Module):
    """Softmax over the channels of an image, at each place.

    Formula: result = e^input / sum over channels of e^input
    Shape: ``(batch, channels, height, width)`` or ``(channels, height, width)`` to the same.
    Raises: ValueError for another number of dimensions.
    See also: Softmax

    Example:
        >>> flambeau.nn.Softmax2d()(flambeau.zeros(2, 1, 3))
        tensor([[[0.5000, 0.5000, 0.5000]],
        <BLANKLINE>
                [[0.5000, 0.5000, 0.5000]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected 3 or 4 dimensions, got {input.dim()}")
        return F.softmax(input, -3)


@described_by("prelu")
class PReLU(Module):
    """Rectifier with a learned slope for negative elements.

    Args:
        num_parameters: 1 for one slope, or the number of channels (dimension 1) for one slope per channel.
        init: the initial slope.
    Shape: ``(*)``, or ``(batch, channels, *)`` with one slope per channel, to the same.
    Source: He et al. 2015, "Delving Deep into Rectifiers".
    See also: LeakyReLU, RReLU

    Example:
        >>> flambeau.nn.PReLU()(flambeau.tensor([-1.0, 0.0, 2.0])).detach()
        tensor([-0.2500,  0.0000,  2.0000])
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
