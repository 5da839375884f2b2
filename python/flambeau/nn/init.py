"""Initial values of parameters. Each function fills its tensor in place, without gradients."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Generator, Tensor
from flambeau._loading.lazy import attributes
from flambeau._overrides.overridable import offer as _offer


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Look up the factor that an activation asks of the standard deviation of the weights before it.

    Args:
        nonlinearity: "linear", "sigmoid", "conv1d" to "conv3d", "conv_transpose1d" to "conv_transpose3d" (1),
            "tanh" (5 / 3), "relu" (the root of 2), "leaky_relu" (the root of 2 / (1 + param^2)) or "selu" (3
            / 4).
        param: the negative slope of "leaky_relu". Default: 0.01.
    Returns: the gain, a positive number.
    Raises: ValueError for another nonlinearity, or a slope that is not a number.
    Source: He et al. 2015, "Delving Deep into Rectifiers", for the rectifiers.

    Example:
        >>> flambeau.nn.init.calculate_gain("leaky_relu", 0.2)
        1.3867504905630728
    """
    if nonlinearity in ("linear", "sigmoid") or nonlinearity.startswith("conv"):
        return 1.0
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 0.75}
    if nonlinearity in gains:
        return gains[nonlinearity]
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"leaky_relu: expected a number as negative slope, got {slope!r}")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(
        f"calculate_gain: Unsupported nonlinearity {nonlinearity}: expected linear, conv, "
        f"sigmoid, tanh, relu, leaky_relu or selu, got {nonlinearity!r}"
    )


def _fans(who: str, tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError(f"{who}: expected at least 2 dimensions for fan in and fan out, got {tensor.dim()}")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with numbers from the uniform distribution on [a, b).

    Args:
        tensor: the tensor to fill, of a floating dtype.
        a: the lower bound, included.
        b: the upper bound, which is not reached.
        generator: the source of random numbers. None means the default generator.
    Returns: `tensor`.

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.init.uniform_(flambeau.empty(3), -1.0, 1.0)
        tensor([-0.0075,  0.5364, -0.8230])
    """
    with flambeau.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill a tensor with numbers from the normal distribution.

    Args:
        tensor: the tensor to fill, of a floating dtype.
        mean: the mean of the distribution.
        std: its standard deviation, 0 or more.
        generator: the source of random numbers. None means the default generator.
    Returns: `tensor`.

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.init.normal_(flambeau.empty(3), std=0.1)
        tensor([ 0.1541, -0.0293, -0.2179])
    """
    with flambeau.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill a tensor with one value.

    Args:
        tensor: the tensor to fill.
        val: the value.
    Returns: `tensor`.

    Example:
        >>> flambeau.nn.init.constant_(flambeau.empty(2), 0.5)
        tensor([0.5000, 0.5000])
    """
    with flambeau.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill a tensor with 1.

    Args:
        tensor: the tensor to fill.
    Returns: `tensor`.

    Example:
        >>> flambeau.nn.init.ones_(flambeau.empty(2))
        tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill a tensor with 0.

    Args:
        tensor: the tensor to fill.
    Returns: `tensor`.

    Example:
        >>> flambeau.nn.init.zeros_(flambeau.empty(2))
        tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with 1 on the diagonal and 0 elsewhere, so that a linear layer keeps its inputs.

    Args:
        tensor: the matrix to fill; it need not be square.
    Returns: `tensor`.
    Raises: ValueError if `tensor` does not have 2 dimensions.

    Example:
        >>> flambeau.nn.init.eye_(flambeau.empty(2, 3))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    if tensor.dim() != 2:
        raise ValueError(f"eye_: expected 2 dimensions, got {tensor.dim()}")
    with flambeau.no_grad():
        return tensor.copy_(flambeau.eye(*tensor.shape, dtype=tensor.dtype))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill weights from a uniform distribution that keeps the variance through layers in both directions.

    Formula:
        U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out))

    Args:
        tensor: the weights (out, in, *) to fill. The fans are ``in`` and ``out`` times the product of the
            sizes ``*``.
        gain: the factor that the activation asks for; see `calculate_gain`.
        generator: the source of random numbers. None means the default generator.
    Returns: `tensor`.
    Raises: ValueError if `tensor` has fewer than 2 dimensions.
    See also: `xavier_normal_`, `kaiming_uniform_`
    Source: Glorot & Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks",
        eq. 16.

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.init.xavier_uniform_(flambeau.empty(2, 3))
        tensor([[-0.0082,  0.5876, -0.9016],
                [-0.8062, -0.4219,  0.2938]])
    """
    bound = gain * math.sqrt(6.0 / sum(_fans("xavier_uniform_", tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill weights from a normal distribution that keeps the variance through layers in both directions.

    Formula:
        N(0, s^2), s = gain * sqrt(2 / (fan_in + fan_out))

    Args:
        tensor: the weights (out, in, *) to fill. The fans are ``in`` and ``out`` times the product of the
            sizes ``*``.
        gain: the factor that the activation asks for; see `calculate_gain`.
        generator: the source of random numbers. None means the default generator.
    Returns: `tensor`.
    Raises: ValueError if `tensor` has fewer than 2 dimensions.
    See also: `xavier_uniform_`, `kaiming_normal_`
    Source: Glorot & Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks",
        eq. 12.

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.init.xavier_normal_(flambeau.empty(2, 3))
        tensor([[ 0.9746, -0.1856, -1.3780],
                [ 0.3595, -0.6859, -0.8845]])
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans("xavier_normal_", tensor))), generator)


def _is_empty(tensor: Tensor) -> bool:
    if tensor.numel() == 0:
        warnings.warn("Initializing zero-element tensors is a no-op", UserWarning, stacklevel=3)
    return tensor.numel() == 0


def _kaiming_std(who: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"{who}: expected 'fan_in' or 'fan_out' as mode, got {mode!r}")
    fan_in, fan_out = _fans(who, tensor)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan_in if mode == "fan_in" else fan_out)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill weights from a uniform distribution that keeps the variance through layers with rectifiers.

    Formula:
        U(-b, b), b = gain * sqrt(3 / fan), gain = calculate_gain(nonlinearity, a)

    Args:
        tensor: the weights (out, in, *) to fill; nothing happens, with a warning, if it has no elements.
        a: the negative slope of the rectifier, used with "leaky_relu" alone.
        mode: "fan_in" keeps the variance of activations, "fan_out" that of gradients.
        nonlinearity: the name of the activation behind the layer; see `calculate_gain`.
        generator: the source of random numbers. None means the default generator.
    Returns: `tensor`.
    Raises: ValueError for another mode or nonlinearity, or fewer than 2 dimensions.
    See also: `kaiming_normal_`, `xavier_uniform_`
    Source: He et al. 2015, "Delving Deep into Rectifiers", eq. 10 and 14.

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.init.kaiming_uniform_(flambeau.empty(2, 3), nonlinearity="relu")
        tensor([[-0.0106,  0.7586, -1.1640],
                [-1.0408, -0.5447,  0.3792]])
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill weights from a normal distribution that keeps the variance through layers with rectifiers.

    Formula:
        N(0, s^2), s = gain / sqrt(fan), gain = calculate_gain(nonlinearity, a)

    Args:
        tensor: the weights (out, in, *) to fill; nothing happens, with a warning, if it has no elements.
        a: the negative slope of the rectifier, used with "leaky_relu" alone.
        mode: "fan_in" keeps the variance of activations, "fan_out" that of gradients.
        nonlinearity: the name of the activation behind the layer; see `calculate_gain`.
        generator: the source of random numbers. None means the default generator.
    Returns: `tensor`.
    Raises: ValueError for another mode or nonlinearity, or fewer than 2 dimensions.
    See also: `kaiming_uniform_`, `xavier_normal_`
    Source: He et al. 2015, "Delving Deep into Rectifiers", eq. 10 and 14.

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.init.kaiming_normal_(flambeau.empty(2, 3), mode="fan_out", nonlinearity="relu")
        tensor([[ 1.5410, -0.2934, -2.1788],
                [ 0.5684, -1.0845, -1.3986]])
    """
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity), generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor from the normal distribution restricted to [a, b], by rejection.

    Candidates are normal where [a, b] holds more than 0.3 of the distribution. Otherwise they are uniform and
    are
    accepted in proportion to the density. Each round draws for every element, accepted or not, as PyTorch
    does:
    equal seeds give equal numbers.

    Args:
        tensor: the tensor to fill, of a floating dtype.
        mean: the mean of the normal distribution before it is restricted.
        std: its standard deviation, above 0.
        a: the lower bound, in the units of `mean`, not of `std`.
        b: the upper bound.
        generator: the source of random numbers. None means the default generator.
    Returns: `tensor`. A warning is given if `mean` lies more than 2 `std` outside [a, b].
    Source: Robert 1995, "Simulation of truncated normal variables".

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.init.trunc_normal_(flambeau.empty(4), a=-0.5, b=0.5)
        tensor([ 0.3704, -0.2934,  0.4033,  0.1820])
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "trunc_normal_: mean is more than 2 std from [a, b], so the result may be badly distributed",
            stacklevel=2,
        )

    def below(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    low, high = (tensor.new_tensor(bound).item() for bound in (a, b))
    log_peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def normal_round() -> tuple[Tensor, Tensor]:
        candidates = flambeau.empty_like(tensor).normal_(mean, std, generator=generator)
        return candidates, (candidates < low) | (candidates > high)

    def uniform_round() -> tuple[Tensor, Tensor]:
        candidates = flambeau.empty_like(tensor).uniform_(a, b, generator=generator)
        log_density = candidates.sub(mean).div(std).pow(2).mul(-0.5).sub(log_peak)
        height = flambeau.empty_like(tensor).uniform_(generator=generator)
        return candidates, height.log() > log_density

    common = below((b - mean) / std) - below((a - mean) / std) > 0.3
    with flambeau.no_grad():
        result, rejected = normal_round() if common else uniform_round()
        while rejected.any():
            candidates, outside = normal_round() if common else uniform_round()
            result = flambeau.where(rejected, candidates, result)
            rejected = rejected & outside
        return tensor.copy_(result)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weights of a convolution so that it keeps as many input channels as it can, in each group.

    Args:
        tensor: weights (out, in, *) of 3 to 5 dimensions; ``out`` must be divisible by `groups`.
        groups: the number of groups of the convolution.
    Returns: `tensor`, with 1 at the middle of the window from input channel i to output channel i, 0
        elsewhere.
    Raises: ValueError for another number of dimensions, or if `groups` does not divide ``out``.

    Example:
        >>> flambeau.nn.init.dirac_(flambeau.empty(2, 2, 3))
        tensor([[[0., 1., 0.],
                 [0., 0., 0.]],
        <BLANKLINE>
                [[0., 0., 0.],
                 [0., 1., 0.]]])
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(f"dirac_: expected 3 to 5 dimensions, got {tensor.dim()}")
    if tensor.size(0) % groups != 0:
        raise ValueError(
            f"dirac_: expected a multiple of groups={groups} as dimension 0, got {tensor.size(0)}"
        )
    rows = tensor.size(0) // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    with flambeau.no_grad():
        tensor.zero_()
        for group in range(groups):
            for place in range(min(rows, tensor.size(1))):
                tensor[(group * rows + place, place, *middle)] = 1
        return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill weights with a matrix whose rows, or columns if these are fewer, are orthonormal.

    The matrix is Q of the QR decomposition of normal numbers, with the signs of the diagonal of R, so that it
    is
    distributed uniformly over all such matrices.

    Args:
        tensor: the weights to fill, of 2 or more dimensions. All dimensions after the first count as one.
        gain: the factor of the matrix.
        generator: the source of random numbers. None means the default generator.
    Returns: `tensor`.
    Raises: ValueError if `tensor` has fewer than 2 dimensions.
    Source: Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of learning in deep linear neural
        networks".

    Example:
        >>> w = flambeau.nn.init.orthogonal_(flambeau.empty(2, 4))
        >>> flambeau.allclose(w @ w.T, flambeau.eye(2), atol=1e-6)
        True
    """
    if tensor.dim() < 2:
        raise ValueError(f"orthogonal_: expected at least 2 dimensions, got {tensor.dim()}")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.size(0), tensor.numel() // tensor.size(0)
    with flambeau.no_grad():
        drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = flambeau.linalg.qr(drawn.t() if rows < columns else drawn)
        q = q * r.diagonal().sign()  # the distribution is uniform only with these signs
        return tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with normal numbers, and set a share of each column to 0.

    Args:
        tensor: the matrix to fill.
        sparsity: the share of each column that is set to 0, in [0, 1]; the number of zeros is rounded up.
        std: the standard deviation of the other elements; their mean is 0.
        generator: the source of the normal numbers. None means the default generator, which always chooses
            the zeros.
    Returns: `tensor`.
    Raises: ValueError if `tensor` does not have 2 dimensions.
    Source: Martens 2010, "Deep learning via Hessian-free optimization".

    Example:
        >>> w = flambeau.nn.init.sparse_(flambeau.empty(4, 2), sparsity=0.5)
        >>> (w == 0).sum(0)
        tensor([2, 2])
    """
    if tensor.dim() != 2:
        raise ValueError(f"sparse_: expected 2 dimensions, got {tensor.dim()}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with flambeau.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[flambeau.randperm(rows)[:zeros], column] = 0
    return tensor


def _older(new: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The name without underscore, which PyTorch keeps."""

    def function(*args: Any, **kwargs: Any) -> Tensor:
        import warnings

        name = function.__name__
        warnings.warn(f"nn.init.{name} is an old name of nn.init.{name}_", FutureWarning, stacklevel=2)
        return new(*args, **kwargs)

    function.__name__ = function.__qualname__ = new.__name__.rstrip("_")
    function.__doc__ = f"Deprecated alias of `nn.init.{new.__name__}`, without the underscore."
    return function


uniform, normal, constant, eye = _older(uniform_), _older(normal_), _older(constant_), _older(eye_)
dirac, orthogonal, sparse = _older(dirac_), _older(orthogonal_), _older(sparse_)
xavier_uniform, xavier_normal = _older(xavier_uniform_), _older(xavier_normal_)
kaiming_uniform, kaiming_normal = _older(kaiming_uniform_), _older(kaiming_normal_)

__getattr__, __dir__ = attributes(__name__)
_offer(globals())
