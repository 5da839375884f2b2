"""Distributions of real numbers and vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.constraints import Constraint
from flambeau.distributions.distribution import Distribution, as_tensors

EULER = 0.57721566490153286060


class _LocationScale(Distribution):
    """loc + scale z, for a fixed distribution of z; subclasses say which."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = as_tensors(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _standard(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale


class Normal(_LocationScale):
    r"""The normal distribution of mean `loc` and standard deviation `scale`.

    >>> from flambeau.distributions import Normal
    >>> Normal(0.0, 2.0).variance
    tensor(4.)
    """

    @property
    def mean(self) -> Tensor:
        """The location."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """The square of the scale."""
        return self.scale**2

    @property
    def stddev(self) -> Tensor:
        """The scale."""
        return self.scale

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw numbers."""
        shape = self._extended_shape(sample_shape)
        with flambeau.no_grad():
            return flambeau.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw loc + scale z, z from the standard normal distribution."""
        noise = flambeau.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype).normal_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return -z^2 / 2 - log(scale sqrt(2 pi))."""
        return -(self._standard(value) ** 2) / 2 - self.scale.log() - math.log(2 * math.pi) / 2

    def cdf(self, value: Tensor) -> Tensor:
        """Return (1 + erf(z / sqrt 2)) / 2."""
        return (1 + flambeau.erf(self._standard(value) / math.sqrt(2))) / 2

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile."""
        return self.loc + self.scale * flambeau.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """Return log(scale sqrt(2 pi e))."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Laplace(_LocationScale):
    """Two exponential distributions back to back, of density e^-|z| / (2 scale)."""

    @property
    def mean(self) -> Tensor:
        """The location."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """Twice the squared scale."""
        return 2 * self.scale**2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw by the inverse of the distribution function."""
        eps = flambeau.finfo(self.loc.dtype).eps
        shape = self._extended_shape(sample_shape)
        u = flambeau.empty(shape, dtype=self.loc.dtype).uniform_(eps - 1, 1)
        return self.loc - self.scale * u.sign() * flambeau.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        """Return -|z| - log(2 scale)."""
        return -self._standard(value).abs() - (2 * self.scale).log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of lower values."""
        z = self._standard(value)
        return 0.5 - 0.5 * z.sign() * flambeau.expm1(-z.abs())

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * flambeau.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        """Return 1 + log(2 scale)."""
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """The Cauchy distribution, which has neither mean nor variance."""

    @property
    def mean(self) -> Tensor:
        """NaN: there is none."""
        return flambeau.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return flambeau.full_like(self.loc, math.inf)

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw loc + scale z."""
        shape = self._extended_shape(sample_shape)
        return self.loc + flambeau.empty(shape, dtype=self.loc.dtype).cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return -log(pi scale (1 + z^2))."""
        return -math.log(math.pi) - self.scale.log() - (self._standard(value) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """Return atan(z) / pi + 1/2."""
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile."""
        return flambeau.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        """Return log(4 pi scale)."""
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The distribution of maxima, of distribution function e^-e^-z."""

    @property
    def mean(self) -> Tensor:
        """Euler's constant in scales from the location."""
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """pi^2 / 6 squared scales."""
        return (math.pi * self.scale) ** 2 / 6

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw by the inverse of the distribution function."""
        limits = flambeau.finfo(self.loc.dtype)
        u = flambeau.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        u.uniform_(limits.tiny, 1 - limits.eps)
        return self.loc - self.scale * (-u.log()).log()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return -z - e^-z - log(scale)."""
        z = -self._standard(value)
        return z - z.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return e^-e^-z."""
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile."""
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        """Return log(scale) + 1 + Euler's constant."""
        return self.scale.log() + (1 + EULER)


class LogNormal(Normal):
    """e to a normal number."""

    support = constraints.positive

    @property
    def mean(self) -> Tensor:
        """e^(loc + scale^2 / 2)."""
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        """e^(loc - scale^2)."""
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        """(e^(scale^2) - 1) e^(2 loc + scale^2)."""
        squared = self.scale**2
        return squared.expm1() * (2 * self.loc + squared).exp()

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw positive numbers."""
        with flambeau.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw e^(loc + scale z)."""
        return super().rsample(sample_shape).exp()

    def _standard(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (value.log() - self.loc) / self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the normal density of log(value), less log(value)."""
        return super().log_prob(value) - value.log()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile."""
        return super().icdf(value).exp()

    def entropy(self) -> Tensor:
        """Return that of the logarithm, and loc."""
        return super().entropy() + self.loc


class Uniform(Distribution):
    """Equal density from `low` to `high`, which does not belong to it."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {"low": constraints.real, "high": constraints.real}
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = as_tensors(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not (self.low < self.high).all():
            raise ValueError(f"{self!r}: expected low to satisfy the constraint of being below high")

    @property
    def support(self) -> Any:
        """From low to high."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: all are equally likely."""
        return flambeau.full_like(self.high, math.nan)

    @property
    def variance(self) -> Tensor:
        """A twelfth of the squared width."""
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw numbers."""
        u = flambeau.rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return -log(high - low) within, -inf elsewhere."""
        if self._validate_args:
            self._validate_sample(value)
        within = (self.low <= value) & (self.high > value)
        return within.type_as(self.low).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the share of the width below the value."""
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """Return the logarithm of the width."""
        return (self.high - self.low).log()


class Exponential(Distribution):
    """Waiting times, of density rate e^(-rate x)."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = as_tensors(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """1 / rate."""
        return self.rate.reciprocal()

    stddev = mean

    @property
    def mode(self) -> Tensor:
        """0."""
        return flambeau.zeros_like(self.rate)

    @property
    def variance(self) -> Tensor:
        """1 / rate^2."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw times."""
        shape = self._extended_shape(sample_shape)
        return flambeau.empty(shape, dtype=self.rate.dtype).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """Return log(rate) - rate x."""
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """Return 1 - e^(-rate x)."""
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile."""
        return -flambeau.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        """Return 1 - log(rate)."""
        return 1 - self.rate.log()
