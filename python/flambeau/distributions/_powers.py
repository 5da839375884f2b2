"""Families that are powers of exponential, uniform and gamma numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions._bounded import Uniform
from flambeau.distributions._gamma import Exponential, Gamma
from flambeau.distributions._transformed import TransformedDistribution
from flambeau.distributions.transforms import AffineTransform, ExpTransform, PowerTransform, Transform
from flambeau.distributions.utils import broadcast_all, euler_constant


@described
class Weibull(TransformedDistribution):
    """Weibull distribution.

    Support: x > 0.

    Formula:
        P(X > x) = e^(-(x / scale)^concentration)

    Args:
        scale: the unit of x, above 0.
        concentration: the exponent, above 0. 1 gives the exponential distribution.
        {validate_args}
    Raises: ValueError for parameters outside their range.

    Example:
        >>> flambeau.distributions.Weibull(2.0, 1.0).mean
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = dict.fromkeys(
        ("scale", "concentration"), constraints.positive
    )
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(flambeau.ones_like(self.scale), validate_args=validate_args)
        chain: list[Transform] = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, chain, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = self._get_checked_instance(self._family(), _instance)
        pair = self.scale.expand(batch_shape), self.concentration.expand(batch_shape)
        Weibull.__init__(new, *pair, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Tensor:
        """Scale Gamma(1 + 1 / k)."""
        return self.scale * flambeau.exp(flambeau.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Tensor:
        """Scale ((k - 1) / k)^(1 / k)."""
        share = (self.concentration - 1) / self.concentration
        return self.scale * share**self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        """scale^2 (Gamma(1 + 2 / k) - Gamma(1 + 1 / k)^2)."""
        second = flambeau.exp(flambeau.lgamma(1 + 2 * self.concentration_reciprocal))
        first = flambeau.exp(2 * flambeau.lgamma(1 + self.concentration_reciprocal))
        return self.scale.pow(2) * (second - first)

    def entropy(self) -> Tensor:
        """Return Euler's constant times (1 - 1 / k) + log(scale / k) + 1."""
        spread = euler_constant * (1 - self.concentration_reciprocal)
        return spread + flambeau.log(self.scale * self.concentration_reciprocal) + 1


@described
class Pareto(TransformedDistribution):
    """Pareto distribution, with a tail that falls as a power.

    Support: x >= scale.

    Formula:
        P(X > x) = (scale / x)^alpha

    Args:
        scale: the smallest value, above 0.
        alpha: the exponent of the tail, above 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.

    Example:
        >>> flambeau.distributions.Pareto(1.0, 2.0).mean
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = dict.fromkeys(("alpha", "scale"), constraints.positive)

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        chain: list[Transform] = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(Exponential(self.alpha, validate_args=validate_args), chain, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = self._get_checked_instance(self._family(), _instance)
        pair = self.scale.expand(batch_shape), self.alpha.expand(batch_shape)
        Pareto.__init__(new, *pair, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Tensor:
        """Alpha scale / (alpha - 1); infinite up to alpha = 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """The scale."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """scale^2 alpha / ((alpha - 1)^2 (alpha - 2)); infinite up to alpha = 2."""
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Numbers from the scale on."""
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        """Return log(scale / alpha) + 1 + 1 / alpha."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


@described
class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy distribution on [0, 1].

    Support: [0, 1].

    Formula:
        P(X <= x) = 1 - (1 - x^a)^b

    Args:
        concentration1: a > 0.
        concentration0: b > 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.
    Source: Kumaraswamy 1980, "A Generalized Probability Density Function for Double-Bounded Random
        Processes".

    Example:
        >>> flambeau.distributions.Kumaraswamy(1.0, 1.0).mean
        tensor(0.5000)
    """

    arg_constraints: ClassVar[dict[str, Any]] = dict.fromkeys(
        ("concentration1", "concentration0"), constraints.positive
    )
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            flambeau.full_like(self.concentration0, 0.0),
            flambeau.full_like(self.concentration0, 1.0),
            validate_args=validate_args,
        )
        chain: list[Transform] = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, chain, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = self._get_checked_instance(self._family(), _instance)
        pair = self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape)
        Kumaraswamy.__init__(new, *pair, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _moment(self, n: int) -> Tensor:
        """B B(1 + n / a, b)."""
        a, b = self.concentration1, self.concentration0
        power = 1 + n / a
        return flambeau.exp(b.log() + power.lgamma() + b.lgamma() - (power + b).lgamma())

    @property
    def mean(self) -> Tensor:
        """B B(1 + 1 / a, b)."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """((a - 1) / (a b - 1))^(1 / a); NaN where either is below 1."""
        a, b = self.concentration1, self.concentration0
        logarithm = a.reciprocal() * ((a - 1).log() - (a * b - 1).log())
        return logarithm.exp().masked_fill((b < 1) | (a < 1), math.nan)

    @property
    def variance(self) -> Tensor:
        """The second moment minus the squared mean."""
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        """Return 1 - 1 / b + (1 - 1 / a) H(b) - log(a b), H the harmonic numbers."""
        a, b = self.concentration1, self.concentration0
        harmonic = flambeau.digamma(b + 1) + euler_constant
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


@described
class InverseGamma(TransformedDistribution):
    """Distribution of the reciprocal of a gamma variable.

    Support: x > 0.

    Formula:
        p(x) = rate^a / Gamma(a) x^(-a - 1) e^(-rate / x)

    Args:
        concentration: a > 0, the shape of the density.
        rate: the scale of x, above 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.

    Example:
        >>> flambeau.distributions.InverseGamma(3.0, 2.0).mean
        tensor(1.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = dict.fromkeys(("concentration", "rate"), constraints.positive)
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(exponent=-base.rate.new_ones(()))
        super().__init__(base, power, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The base's."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The base's."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """Rate / (concentration - 1); infinite up to 1."""
        mean = self.rate / (self.concentration - 1)
        return flambeau.where(self.concentration > 1, mean, math.inf)

    @property
    def mode(self) -> Tensor:
        """Rate / (concentration + 1)."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """rate^2 / ((a - 1)^2 (a - 2)); infinite up to a = 2."""
        a = self.concentration
        variance = self.rate.square() / ((a - 1).square() * (a - 2))
        return flambeau.where(a > 2, variance, math.inf)

    def entropy(self) -> Tensor:
        """Return a + log(rate) + log Gamma(a) - (1 + a) digamma(a)."""
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
