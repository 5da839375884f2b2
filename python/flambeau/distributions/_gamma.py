"""The gamma family, and the families whose samples are functions of gamma samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import broadcast_all


def _standard_gamma(concentration: Tensor) -> Tensor:
    return flambeau._standard_gamma(concentration)


@described
class Exponential(ExponentialFamily):
    """Exponential distribution: the time between independent events.

    Support: x >= 0.

    Formula:
        p(x) = rate e^(-rate x)

    Args:
        rate: the expected number of events in a unit of time, above 0.
        {validate_args}
    Raises: ValueError for a rate outside its range.

    Example:
        >>> flambeau.distributions.Exponential(4.0).mean
        tensor(0.2500)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """0."""
        return flambeau.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """1 / rate^2."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw times."""
        return self.rate.new_empty(tuple(self._extended_shape(sample_shape))).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """Return log(rate) - rate x."""
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value: Tensor) -> Tensor:
        """Return 1 - e^(-rate x)."""
        return -flambeau.expm1(-self.rate * self._checked(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile."""
        return -flambeau.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        """Return 1 - log(rate)."""
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return -(-x).log()


@described
class Gamma(ExponentialFamily):
    """Gamma distribution.

    Gradients of samples with respect to the concentration are implicit derivatives at a fixed probability.

    Support: x >= 0.

    Formula:
        p(x) = rate^a / Gamma(a) x^(a - 1) e^(-rate x)

    Args:
        concentration: a > 0, the shape of the density.
        rate: the inverse of the scale, above 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.
    Source: Figurnov, Mohamed & Mnih 2018, "Implicit Reparameterization Gradients", for gradients of samples.

    Example:
        >>> flambeau.distributions.Gamma(3.0, 2.0).mean
        tensor(1.5000)
    """

    arg_constraints: ClassVar[dict[str, Any]] = dict.fromkeys(("concentration", "rate"), constraints.positive)
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Concentration / rate."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """(concentration - 1) / rate, 0 below a concentration of 1."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """Concentration / rate^2."""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw numbers, at least the dtype's smallest normal one."""
        shape = tuple(self._extended_shape(sample_shape))
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=flambeau.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        """Return a log(b) + (a - 1) log(x) - b x - log Gamma(a)."""
        value = flambeau.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._checked(value)
        a, b = self.concentration, self.rate
        return flambeau.xlogy(a, b) + flambeau.xlogy(a - 1, value) - b * value - flambeau.lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the regularised lower incomplete gamma function of (a, b x)."""
        return flambeau.special.gammainc(self.concentration, self.rate * self._checked(value))

    def entropy(self) -> Tensor:
        """Return a - log(b) + log Gamma(a) + (1 - a) digamma(a)."""
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return flambeau.lgamma(x + 1) - (x + 1) * (-y).log()


@described
class Chi2(Gamma):
    """Chi-squared distribution: the sum of `df` squared standard normal variables.

    Support: x >= 0.

    Formula:
        p(x) = x^(df / 2 - 1) e^(-x / 2) / (2^(df / 2) Gamma(df / 2))

    Args:
        df: the degrees of freedom, above 0.
        {validate_args}
    Raises: ValueError for `df` outside its range.

    Example:
        >>> flambeau.distributions.Chi2(3.0).variance
        tensor(6.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = self._get_checked_instance(Chi2, _instance)
        new.concentration, new.rate = self.concentration.expand(batch_shape), self.rate.expand(batch_shape)
        return self._settle(new, batch_shape)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


@described
class FisherSnedecor(Distribution):
    """F distribution: the ratio of two chi-squared variables, each divided by its degrees of freedom.

    Support: x > 0.

    Formula:
        p(x) proportional to x^(df1 / 2 - 1) (1 + df1 x / df2)^(-(df1 + df2) / 2)

    Args:
        df1: the degrees of freedom of the numerator, above 0.
        df2: the degrees of freedom of the denominator, above 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.

    Example:
        >>> flambeau.distributions.FisherSnedecor(1.0, 4.0).mean
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gammas: tuple[Gamma, ...] = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = super().expand(batch_shape, _instance)
        new._gammas = tuple(gamma.expand(batch_shape) for gamma in self._gammas)
        return new

    @property
    def mean(self) -> Tensor:
        """df2 / (df2 - 2); NaN up to 2."""
        df2 = self.df2.masked_fill(self.df2 <= 2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        """(df1 - 2) df2 / (df1 (df2 + 2)); NaN up to df1 = 2."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Tensor:
        """2 df2^2 (df1 + df2 - 2) / (df1 (df2 - 2)^2 (df2 - 4)); NaN up to df2 = 4."""
        df2 = self.df2.masked_fill(self.df2 <= 4, math.nan)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw ratios of gamma samples."""
        shape = tuple(self._extended_shape(sample_shape))
        above = self._gammas[0].rsample(sample_shape).view(shape)
        below = self._gammas[1].rsample(sample_shape).view(shape)
        tiny = flambeau.finfo(below.dtype).tiny
        below.detach().clamp_(min=tiny)
        ratio = above / below
        ratio.detach().clamp_(min=tiny)
        return ratio

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        value = self._checked(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        norm = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        power = half1 * ratio.log() + (half1 - 1) * value.log()
        return norm + power - (half1 + half2) * flambeau.log1p(ratio * value)


@described
class Dirichlet(ExponentialFamily):
    """Dirichlet distribution of vectors of nonnegative elements with the sum 1.

    Support: the simplex.

    Formula:
        p(x) = Gamma(sum_i a_i) / prod_i Gamma(a_i) * prod_i x_i^(a_i - 1)

    Args:
        concentration: a_i > 0 along the last dimension.
        {validate_args}
    Raises: ValueError for a 0-dim concentration or elements outside their range.

    Example:
        >>> flambeau.distributions.Dirichlet(flambeau.tensor([1.0, 3.0])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError(
                "Dirichlet: expected concentration to be at least one-dimensional, got a 0-dim tensor"
            )
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Concentrations over their sum."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """(a_i - 1) over their sum; where all are below 1, the corner of the largest."""
        excess = (self.concentration - 1).clamp(min=0.0)
        mode = excess / excess.sum(-1, True)
        corners = (self.concentration < 1).all(-1)
        corner = flambeau.nn.functional.one_hot(mode.argmax(-1), mode.shape[-1]).to(mode)
        return flambeau.where(corners.unsqueeze(-1), corner, mode)

    @property
    def variance(self) -> Tensor:
        """a_i (s - a_i) / (s^2 (s + 1)), s the sum."""
        a, total = self.concentration, self.concentration.sum(-1, True)
        return a * (total - a) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw shares."""
        shape = tuple(self._extended_shape(sample_shape))
        return flambeau._sample_dirichlet(self.concentration.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        a, value = self.concentration, self._checked(value)
        norm = flambeau.lgamma(a.sum(-1)) - flambeau.lgamma(a).sum(-1)
        return flambeau.xlogy(a - 1.0, value).sum(-1) + norm

    def entropy(self) -> Tensor:
        """Return log B(a) + (s - k) digamma(s) - sum (a_i - 1) digamma(a_i)."""
        a, count, total = self.concentration, self.concentration.size(-1), self.concentration.sum(-1)
        norm = flambeau.lgamma(a).sum(-1) - flambeau.lgamma(total)
        rest = ((a - 1.0) * flambeau.digamma(a)).sum(-1)
        return norm - (count - total) * flambeau.digamma(total) - rest

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - flambeau.lgamma(x.sum(-1))


@described
class Beta(ExponentialFamily):
    """Beta distribution on [0, 1].

    Support: [0, 1].

    Formula:
        p(x) = x^(a - 1) (1 - x)^(b - 1) Gamma(a + b) / (Gamma(a) Gamma(b))

    Args:
        concentration1: a > 0, the concentration of x.
        concentration0: b > 0, the concentration of 1 - x.
        {validate_args}
    Raises: ValueError for parameters outside their range.

    Example:
        >>> flambeau.distributions.Beta(1.0, 3.0).mean
        tensor(0.2500)
    """

    arg_constraints: ClassVar[dict[str, Any]] = dict.fromkeys(
        ("concentration1", "concentration0"), constraints.positive
    )
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        pair = flambeau.stack(broadcast_all(concentration1, concentration0), -1)
        if not pair.is_floating_point():
            pair = pair.to(flambeau.get_default_dtype())
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = self._get_checked_instance(Beta, _instance)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        return self._settle(new, batch_shape)

    @property
    def concentration1(self) -> Tensor:
        """The concentration of x."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """The concentration of 1 - x."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        """A / (a + b)."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """(a - 1) / (a + b - 2); 0 or 1 where both are below 1."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """A b / ((a + b)^2 (a + b + 1))."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw shares."""
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        value = self._checked(value)
        return self._dirichlet.log_prob(flambeau.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        """Return the entropy of the Dirichlet distribution of (x, 1 - x)."""
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return flambeau.lgamma(x) + flambeau.lgamma(y) - flambeau.lgamma(x + y)
