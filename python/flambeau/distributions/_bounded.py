"""Families on an interval, and the generalised Pareto distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau._types.size import Size
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions._trials import one_of
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from flambeau.nn.functional import binary_cross_entropy_with_logits


@described
class Uniform(Distribution):
    """Uniform distribution on [low, high).

    Support: [low, high].

    Formula:
        p(x) = 1 / (high - low)

    Args:
        low: the lower bound, included.
        high: the upper bound, above `low`, excluded from samples.
        {validate_args}
    Raises: ValueError if `low` is not below `high`.

    Example:
        >>> flambeau.distributions.Uniform(0.0, 4.0).mean
        tensor(2.)
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """Constraints of the parameters: low < high."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The interval [low, high]."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: all values are equally likely."""
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        """(high - low) / sqrt(12)."""
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        """(high - low)^2 / 12."""
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw numbers."""
        shape = tuple(self._extended_shape(sample_shape))
        return self.low + flambeau.rand(shape, dtype=self.low.dtype, device=self.low.device) * (
            self.high - self.low
        )

    def log_prob(self, value: Tensor) -> Tensor:
        """Return -log(high - low) within, -inf elsewhere."""
        value = self._checked(value)
        within = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return within.log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return (value - low) / (high - low), limited to [0, 1]."""
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """Return log(high - low)."""
        return (self.high - self.low).log()


@described
class ContinuousBernoulli(ExponentialFamily):
    """Continuous Bernoulli distribution on [0, 1].

    Support: [0, 1].

    Formula:
        p(x) proportional to probs^x (1 - probs)^(1 - x)

    Args:
        probs: the parameter, in (0, 1). Give either `probs` or `logits`.
        {logits}
        lims: the interval around 0.5 in which a Taylor series replaces the normalizer, which is 0 / 0 at 0.5.
        {validate_args}
    Raises: ValueError for both or neither of `probs` and `logits`, or values outside their range.
    Source: Loaiza-Ganem & Cunningham 2019, "The Continuous Bernoulli: Fixing a Pervasive Error in Variational
        Autoencoders".

    Example:
        >>> flambeau.distributions.ContinuousBernoulli(0.5).mean
        tensor(0.5000)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _kept = ("_lims",)

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        if one_of(type(self).__name__, probs, logits) == "probs":
            (given,) = broadcast_all(probs)
            if (validate_args if validate_args is not None else self._validate_args) and not (
                constraints.unit_interval.check(given).all()
            ):
                raise ValueError(f"ContinuousBernoulli: expected probs in [0, 1], got {given}")
            self.probs = clamp_probs(given)
        else:
            (self.logits,) = broadcast_all(logits)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @lazy_property
    def logits(self) -> Tensor:
        """log(p / (1 - p))."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter p."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """`probs`, replaced by `lims[0]` within `lims`, where the formula would divide by 0."""
        stand_in = self._lims[0] * flambeau.ones_like(self.probs)
        return flambeau.where(self._outside_unstable_region(), self.probs, stand_in)

    def _stable(self, quotient: Tensor, series: Tensor) -> Tensor:
        return flambeau.where(self._outside_unstable_region(), quotient, series)

    def _cont_bern_log_norm(self) -> Tensor:
        """log(2 artanh(1 - 2 p) / (1 - 2 p))."""
        p = self._cut_probs()
        # Each side of 1/2 has its own logarithm.
        below = flambeau.where(p <= 0.5, p, flambeau.zeros_like(p))
        above = flambeau.where(p >= 0.5, p, flambeau.ones_like(p))
        top = flambeau.log(flambeau.abs(flambeau.log1p(-p) - flambeau.log(p)))
        bottom = flambeau.where(p <= 0.5, flambeau.log1p(-2.0 * below), flambeau.log(2.0 * above - 1.0))
        x = (self.probs - 0.5).pow(2)
        return self._stable(top - bottom, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        """P / (2 p - 1) + 1 / (2 artanh(1 - 2 p))."""
        p = self._cut_probs()
        quotient = p / (2.0 * p - 1.0) + 1.0 / (flambeau.log1p(-p) - flambeau.log(p))
        x = self.probs - 0.5
        return self._stable(quotient, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def variance(self) -> Tensor:
        """P (p - 1) / (1 - 2 p)^2 + 1 / (2 artanh(1 - 2 p))^2."""
        p = self._cut_probs()
        logarithm = flambeau.log1p(-p) - flambeau.log(p)
        quotient = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / logarithm.pow(2)
        x = (self.probs - 0.5).pow(2)
        return self._stable(quotient, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw by the inverse of the distribution function."""
        shape = tuple(self._extended_shape(sample_shape))
        return self.icdf(flambeau.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return x log p + (1 - x) log(1 - p) + log of the normaliser."""
        logits, value = broadcast_all(self.logits, self._checked(value))
        cross = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -cross + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        """Return (p^x (1 - p)^(1 - x) + p - 1) / (2 p - 1); x near p = 1/2."""
        value, p = self._checked(value), self._cut_probs()
        numerator = flambeau.pow(p, value) * flambeau.pow(1.0 - p, 1.0 - value) + p - 1.0
        inner = self._stable(numerator / (2.0 * p - 1.0), value)
        return flambeau.where(
            value <= 0.0,
            flambeau.zeros_like(value),
            flambeau.where(value >= 1.0, flambeau.ones_like(value), inner),
        )

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile."""
        p = self._cut_probs()
        top = flambeau.log1p(-p + value * (2.0 * p - 1.0)) - flambeau.log1p(-p)
        return self._stable(top / (flambeau.log(p) - flambeau.log1p(-p)), value)

    def entropy(self) -> Tensor:
        """Return the expected negative logarithm of the density."""
        log0, log1 = flambeau.log1p(-self.probs), flambeau.log(self.probs)
        return self.mean * (log0 - log1) - self._cont_bern_log_norm() - log0

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        """log((e^x - 1) / x), by its series near 0."""
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = flambeau.where(outside, x, (self._lims[0] - 0.5) * flambeau.ones_like(x))
        quotient = flambeau.log(flambeau.abs(flambeau.special.expm1(cut))) - flambeau.log(flambeau.abs(cut))
        return flambeau.where(outside, quotient, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)


@described
class GeneralizedPareto(Distribution):
    """Generalized Pareto distribution of excesses over a threshold.

    Support: x >= loc, and x <= loc - scale / concentration for a negative concentration.

    Formula:
        P(X > x) = (1 + concentration z)^(-1 / concentration), z = (x - loc) / scale
        P(X > x) = e^-z for concentration 0

    Args:
        loc: the threshold.
        scale: the unit of the excess, above 0.
        concentration: the tail index; the larger, the heavier the tail.
        {validate_args}
    Raises: ValueError for parameters outside their range.
    Source: Hosking & Wallis 1987, "Parameter and Quantile Estimation for the Generalized Pareto
        Distribution".

    Example:
        >>> flambeau.distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From the threshold to the upper end."""
        upper = self.loc - self.scale / self.concentration
        end = flambeau.where(self.concentration < 0, upper, flambeau.full_like(upper, math.inf))
        return constraints.interval(self.loc, end)

    def _safe(self) -> tuple[Tensor, Tensor]:
        """Return whether the concentration counts as 0, and a concentration that is safe to divide by."""
        zero = flambeau.isclose(self.concentration, flambeau.zeros_like(self.concentration))
        return zero, flambeau.where(zero, flambeau.ones_like(self.concentration), self.concentration)

    def _log_survival(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale
        zero, k = self._safe()
        return flambeau.where(zero, -z, -flambeau.log1p(k * z) / k)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        value = self._checked(value)
        return (1 + self.concentration) * self._log_survival(value) - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return log P(X > value)."""
        return self._log_survival(self._checked(value))

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return log P(X <= value)."""
        return flambeau.log1p(-self.log_survival_function(value).exp())

    def cdf(self, value: Tensor) -> Tensor:
        """Return P(X <= value)."""
        return -flambeau.expm1(self.log_survival_function(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile."""
        zero, k = self._safe()
        logarithm = flambeau.log1p(-value)
        return self.loc + self.scale * flambeau.where(zero, -logarithm, flambeau.expm1(-k * logarithm) / k)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw by the inverse of the distribution function."""
        shape = tuple(self._extended_shape(sample_shape))
        return self.icdf(flambeau.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    @property
    def mean(self) -> Tensor:
        """Loc + scale / (1 - concentration); infinite from 1 on."""
        mean = self.loc + self.scale / (1 - self.concentration)
        return flambeau.where(self.concentration < 1, mean, flambeau.full_like(mean, math.inf))

    @property
    def variance(self) -> Tensor:
        """scale^2 / ((1 - k)^2 (1 - 2 k)); infinite from k = 1/2 on."""
        k = self.concentration
        variance = self.scale.pow(2) / ((1 - k).pow(2) * (1 - 2 * k))
        return flambeau.where(k < 0.5, variance, flambeau.full_like(variance, math.inf))

    def entropy(self) -> Tensor:
        """Return log(scale) + concentration + 1."""
        return self.scale.log() + self.concentration + 1

    @property
    def mode(self) -> Tensor:
        """The threshold."""
        return self.loc
