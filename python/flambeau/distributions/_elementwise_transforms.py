"""Transforms of each element by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions._transform import Transform
from flambeau.distributions.utils import _sum_rightmost
from flambeau.nn.functional import softplus


class _Increasing(Transform):
    bijective = True
    sign = 1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


@described
class ExpTransform(_Increasing):
    """Exponential function of each element.

    Formula:
        y = e^x

    Args:
        {cache_size}

    Example:
        >>> flambeau.distributions.ExpTransform()(flambeau.zeros(2))
        tensor([1., 1.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x."""
        return x


@described
class PowerTransform(Transform):
    """Power of each element, from positive numbers to positive numbers.

    Formula:
        y = x^exponent

    Args:
        exponent: the exponent, a number or a tensor that broadcasts with x.
        {cache_size}

    Example:
        >>> flambeau.distributions.PowerTransform(2.0)(flambeau.tensor([1.0, 3.0]))
        tensor([1., 9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else flambeau.tensor(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another cache size."""
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    @property
    def sign(self) -> Any:
        """The sign of the exponent."""
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |exponent y / x|, as a sum: the quotient may be too small or too large for the dtype."""
        return self.exponent.abs().log() + y.abs().log() - x.abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape with the exponent's."""
        return flambeau.broadcast_shapes(tuple(shape), self.exponent.shape)

    inverse_shape = forward_shape


def _clipped_sigmoid(x: Tensor) -> Tensor:
    limits = flambeau.finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)


@described
class SigmoidTransform(_Increasing):
    """Logistic function of each element.

    The value is clamped to the open interval (0, 1), so that the inverse is finite.

    Formula:
        y = 1 / (1 + e^-x)

    Args:
        {cache_size}

    Example:
        >>> flambeau.distributions.SigmoidTransform()(flambeau.zeros(2))
        tensor([0.5000, 0.5000])
    """

    domain = constraints.real
    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = flambeau.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log(y (1 - y)) without overflow."""
        return -softplus(-x) - softplus(x)


@described
class SoftplusTransform(_Increasing):
    """Softplus function of each element; it equals x for large x.

    Formula:
        y = log(1 + e^x)

    Args:
        {cache_size}

    Example:
        >>> flambeau.distributions.SoftplusTransform()(flambeau.tensor([0.0, 50.0]))
        tensor([ 0.6931, 50.0000])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return -log(1 + e^-x)."""
        return -softplus(-x)


@described
class TanhTransform(_Increasing):
    """Hyperbolic tangent of each element.

    Formula:
        y = tanh(x)

    Args:
        {cache_size}

    Example:
        >>> flambeau.distributions.TanhTransform()(flambeau.zeros(2))
        tensor([0., 0.])
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return flambeau.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log(1 - tanh(x)^2) = 2 (log 2 - x - log(1 + e^(-2 x)))."""
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


@described
class AbsTransform(Transform):
    """Absolute value.

    The inverse returns the nonnegative number.

    Formula:
        y = |x|

    Args:
        {cache_size}

    Example:
        >>> flambeau.distributions.AbsTransform()(flambeau.tensor([-2.0, 3.0]))
        tensor([2., 3.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


@described
class AffineTransform(Transform):
    """Affine map of each element.

    Formula:
        y = loc + scale x

    Args:
        loc: the value at 0, a number or a tensor.
        scale: the factor, a number or a tensor.
        event_dim: the number of trailing dimensions of an event; the Jacobian determinant is multiplied over
            them.
        {cache_size}

    Example:
        >>> flambeau.distributions.AffineTransform(1.0, 2.0)(flambeau.ones(2))
        tensor([3., 3.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        """How many dimensions form an event."""
        return self._event_dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another cache size."""
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    @property
    def domain(self) -> Any:
        """All numbers."""
        count = self.event_dim
        return constraints.independent(constraints.real, count) if count else constraints.real

    codomain = domain

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _equal(self.loc, other.loc) and _equal(self.scale, other.scale)

    __hash__ = object.__hash__

    @property
    def sign(self) -> Any:
        """The sign of the scale."""
        if isinstance(self.scale, Number):
            return int(self.scale > 0) - int(self.scale < 0)  # type: ignore[operator]
        return self.scale.sign()

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |scale|, summed over events."""
        if isinstance(self.scale, Number):
            logarithm = flambeau.full_like(x, math.log(abs(self.scale)))  # type: ignore[arg-type]
        else:
            logarithm = self.scale.abs().log()
        summed = _sum_rightmost(logarithm.expand(_joined(logarithm, x)), self.event_dim)
        return summed.expand(x.shape[: x.dim() - self.event_dim])

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape with those of loc and scale."""
        shapes = (getattr(v, "shape", ()) for v in (self.loc, self.scale))
        return flambeau.broadcast_shapes(tuple(shape), *shapes)

    inverse_shape = forward_shape


def _joined(a: Tensor, b: Tensor) -> Any:
    return flambeau.broadcast_shapes(a.shape, b.shape)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Number) and isinstance(b, Number):
        return a == b
    return bool((flambeau.as_tensor(a) == flambeau.as_tensor(b)).all())


@described
class CumulativeDistributionTransform(Transform):
    """Cumulative distribution function of a distribution.

    Formula:
        y = P(X <= x)

    Args:
        distribution: a univariate distribution with ``cdf``, ``icdf`` and ``log_prob``.
        {cache_size}

    Example:
        >>> from flambeau.distributions import CumulativeDistributionTransform, Normal
        >>> CumulativeDistributionTransform(Normal(0.0, 1.0))(flambeau.zeros(2))
        tensor([0.5000, 0.5000])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        """The distribution's support."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the logarithm of the density at x."""
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another cache size."""
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
