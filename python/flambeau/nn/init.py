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
    """Return the factor by which an activation should raise the standard deviation of its weights.

    Args:
        nonlinearity: linear, conv1d to conv3d, sigmoid, tanh, relu, leaky_relu or selu.
        param: the negative slope, for leaky_relu.
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
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _fans(tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError("fan in and fan out: expected at least 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw from the uniform distribution on [a, b)."""
    with flambeau.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Draw from the normal distribution."""
    with flambeau.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    with flambeau.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity."""
    if tensor.dim() != 2:
        raise ValueError("eye_: expected 2 dimensions")
    with flambeau.no_grad():
        return tensor.copy_(flambeau.eye(*tensor.shape, dtype=tensor.dtype))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw from U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out)).

    Source: Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward networks".
    """
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw from N(0, s^2), s = gain * sqrt(2 / (fan_in + fan_out)). Source: Glorot and Bengio 2010."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def _is_empty(tensor: Tensor) -> bool:
    if tensor.numel() == 0:
        warnings.warn("Initializing zero-element tensors is a no-op", UserWarning, stacklevel=3)
    return tensor.numel() == 0


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"expected 'fan_in' or 'fan_out' as mode, got {mode!r}")
    fan_in, fan_out = _fans(tensor)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan_in if mode == "fan_in" else fan_out)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Draw from U(-b, b), b = gain * sqrt(3 / fan).

    Source: He et al. 2015, "Delving deep into rectifiers", eq. 10 and 14.
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Draw from N(0, s^2), s = gain / sqrt(fan). Source: He et al. 2015."""
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Draw from the normal distribution restricted to [a, b], by rejection.

    Candidates are normal where [a, b] holds more than 0.3 of the distribution, else uniform and accepted in
    proportion to the density. Each round draws for every element, accepted or not, as PyTorch does:
    equal seeds give equal numbers.
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
        tensor: of 3, 4 or 5 dimensions; the first must be divisible by `groups`.
        groups: number of groups.
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("dirac_: expected 3 to 5 dimensions")
    if tensor.size(0) % groups != 0:
        raise ValueError("dirac_: expected a multiple of groups as dimension 0")
    rows = tensor.size(0) // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    with flambeau.no_grad():
        tensor.zero_()
        for group in range(groups):
            for place in range(min(rows, tensor.size(1))):
                tensor[(group * rows + place, place, *middle)] = 1
        return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix times `gain`; dimensions behind the first count as one.

    Source: Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of learning in deep linear networks".
    """
    if tensor.dim() < 2:
        raise ValueError("orthogonal_: expected at least 2 dimensions")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.size(0), tensor.numel() // tensor.size(0)
    with flambeau.no_grad():
        drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = flambeau.linalg.qr(drawn.t() if rows < columns else drawn)
        q = q * r.diagonal().sign()  # the distribution is uniform only with these signs
        return tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Draw a matrix from the normal distribution and set a share of each column to 0.

    Source: Martens 2010, "Deep learning via Hessian-free optimization".
    """
    if tensor.dim() != 2:
        raise ValueError("sparse_: expected 2 dimensions")
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
    function.__doc__ = f"`{new.__name__}` under its older name."
    return function


uniform, normal, constant, eye = _older(uniform_), _older(normal_), _older(constant_), _older(eye_)
dirac, orthogonal, sparse = _older(dirac_), _older(orthogonal_), _older(sparse_)
xavier_uniform, xavier_normal = _older(xavier_uniform_), _older(xavier_normal_)
kaiming_uniform, kaiming_normal = _older(kaiming_uniform_), _older(kaiming_normal_)

__getattr__, __dir__ = attributes(__name__)
_offer(globals())
