"""Families of loc + scale z, and the von Mises distribution on the circle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions._gamma import Chi2
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import _standard_normal, broadcast_all, lazy_property


class _LocationScale(Distribution):
    """loc + scale z, for a distribution of z that the subclass fixes."""

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    def _standard(self, value: Tensor) -> Tensor:
        return (self._checked(value) - self.loc) / self.scale

    def _empty(self, sample_shape: Sequence[int]) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        return flambeau.empty(shape, dtype=self.loc.dtype, device=self.loc.device)


@described
class Normal(_LocationScale, ExponentialFamily):
    """Normal (Gaussian) distribution.

    Support: real numbers.

    Formula:
        p(x) = e^(-((x - loc) / scale)^2 / 2) / (scale sqrt(2 pi))

    Args:
        loc: the mean.
        scale: the standard deviation, above 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.

    Example:
        >>> flambeau.distributions.Normal(0.0, 2.0).variance
        tensor(4.)
    """

    _mean_carrier_measure = 0

    @property
    def mean(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The square of the scale."""
        return self.stddev.pow(2)

    @property
    def stddev(self) -> Tensor:
        """The scale."""
        return self.scale

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw numbers."""
        shape = tuple(self._extended_shape(sample_shape))
        with flambeau.no_grad():
            return flambeau.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw loc + scale z, z from the standard normal distribution."""
        return self.loc + self._empty(sample_shape).normal_() * self.scale

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

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x.pow(2) / y + 0.5 * (-math.pi / y).log()


@described
class Laplace(_LocationScale):
    """Laplace distribution: two exponential distributions, mirrored at `loc`.

    Support: real numbers.

    Formula:
        p(x) = e^(-|x - loc| / scale) / (2 scale)

    Args:
        loc: the mean.
        scale: the mean distance from `loc`, above 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.

    Example:
        >>> flambeau.distributions.Laplace(0.0, 1.0).cdf(flambeau.tensor(0.0))
        tensor(0.5000)
    """

    @property
    def mean(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Twice the squared scale."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        """Scale sqrt(2)."""
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw by the inverse of the distribution function."""
        eps = flambeau.finfo(self.loc.dtype).eps
        u = self._empty(sample_shape).uniform_(eps - 1, 1)
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


@described
class Cauchy(_LocationScale):
    """Cauchy distribution, which has neither mean nor variance.

    Support: real numbers.

    Formula:
        p(x) = 1 / (pi scale (1 + z^2)), z = (x - loc) / scale

    Args:
        loc: the median.
        scale: half the distance between the quartiles, above 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.

    Example:
        >>> flambeau.distributions.Cauchy(0.0, 1.0).cdf(flambeau.tensor(1.0))
        tensor(0.7500)
    """

    @property
    def mean(self) -> Tensor:
        """NaN: the mean does not exist."""
        return flambeau.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return flambeau.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw loc + scale z."""
        return self.loc + self._empty(sample_shape).cauchy_() * self.scale

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


@described
class StudentT(Distribution):
    """Student's t distribution.

    Support: real numbers.

    Formula:
        p(x) proportional to (1 + z^2 / df)^(-(df + 1) / 2), z = (x - loc) / scale

    Args:
        df: the degrees of freedom, above 0. The mean exists above 1, the variance is finite above 2.
        loc: the median.
        scale: the unit of the distance from `loc`, above 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.

    Example:
        >>> flambeau.distributions.StudentT(4.0).variance
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = super().expand(batch_shape, _instance)
        new._chi2 = self._chi2.expand(batch_shape)
        return new

    @property
    def mean(self) -> Tensor:
        """The location; NaN up to one degree of freedom."""
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """scale^2 df / (df - 2); infinite up to 2 degrees of freedom, NaN up to one."""
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        return finite.masked_fill(self.df <= 2, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw a normal number over the root of a chi-squared one, divided by df."""
        shape = self._extended_shape(sample_shape)
        normal = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        ratio = normal * flambeau.rsqrt(self._chi2.rsample(sample_shape) / self.df)
        return self.loc + self.scale * ratio

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        z = (self._checked(value) - self.loc) / self.scale
        half = 0.5 * self.df
        norm = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        norm = norm + half.lgamma() - (half + 0.5).lgamma()
        return -(half + 0.5) * (z**2 / self.df).log1p() - norm

    def entropy(self) -> Tensor:
        """Return h (digamma(h) - digamma(df / 2)) + log(scale sqrt(df) B(df/2, 1/2)), h = (df + 1) / 2."""
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        beta = half.lgamma() + math.lgamma(0.5) - more.lgamma()
        return self.scale.log() + more * (more.digamma() - half.digamma()) + 0.5 * self.df.log() + beta


@described
class VonMises(Distribution):
    """Von Mises distribution of angles.

    Support: real numbers; samples lie in [-pi, pi).

    Formula:
        p(x) = e^(concentration cos(x - loc)) / (2 pi I_0(concentration))

    Args:
        loc: the mean angle, in radians.
        concentration: the inverse of the spread, above 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.
    Source: Best & Fisher 1979, "Efficient Simulation of the von Mises Distribution".

    Example:
        >>> flambeau.distributions.VonMises(flambeau.tensor(0.5), flambeau.tensor(2.0)).mean
        tensor(0.5000)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean angle."""
        return self.loc

    mode = mean

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1(k) / I0(k)."""
        k = self.concentration
        return 1 - flambeau.special.i1e(k) / flambeau.special.i0e(k)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return k cos(x - loc) - log(2 pi I0(k)), without overflow."""
        k = self.concentration
        norm = math.log(2 * math.pi) + flambeau.special.i0e(k).log()
        return k * (flambeau.cos(self._checked(value) - self.loc) - 1) - norm

    @lazy_property
    def _proposal(self) -> Tensor:
        """The envelope's parameter, in double precision."""
        k = self.concentration.double()
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return flambeau.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw angles by rejection from a wrapped Cauchy distribution."""
        with flambeau.no_grad():
            return self._rejected(sample_shape)

    def _rejected(self, sample_shape: Sequence[int]) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        x = flambeau.empty(shape, dtype=flambeau.float64, device=self.loc.device)
        loc, k, r = self.loc.double(), self.concentration.double().expand(shape), self._proposal.expand(shape)
        done = flambeau.zeros(shape, dtype=flambeau.bool, device=self.loc.device)
        while not done.all():
            u1, u2, u3 = flambeau.rand((3, *shape), dtype=flambeau.float64, device=self.loc.device).unbind()
            f = flambeau.cos(math.pi * u1)
            f = (1 + r * f) / (r + f)
            c = k * (r - f)
            accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
            # As in PyTorch, a newly accepted angle replaces an earlier one.
            x = flambeau.where(accept, (u3 - 0.5).sign() * f.acos(), x)
            done = done | accept
        wrapped = (x + math.pi + loc) % (2 * math.pi) - math.pi
        return wrapped.to(self.loc.dtype)
