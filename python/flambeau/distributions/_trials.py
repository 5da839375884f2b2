"""Trials and counts: Bernoulli, geometric, Poisson, binomial and negative binomial distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau._types.size import Size
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions._gamma import Gamma
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import (
    _binary_entropy,
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from flambeau.nn.functional import binary_cross_entropy_with_logits


def one_of(who: str, probs: Any, logits: Any) -> str:
    """Return the name of the given parameter. Raises: ValueError unless exactly one is given."""
    if (probs is None) == (logits is None):
        number = "neither" if probs is None else "both"
        raise ValueError(f"{who}: expected either `probs` or `logits`, got {number} of them")
    return "probs" if logits is None else "logits"


class _Odds(Distribution):
    """Given by the probability of success, or by the logarithm of its odds."""

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithm of the odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()


@described
class Bernoulli(_Odds, ExponentialFamily):
    """Bernoulli distribution: 1 with probability `probs`, otherwise 0.

    Support: 0 and 1.

    Formula:
        p(k) = probs^k (1 - probs)^(1 - k)

    Args:
        {probs}
        {logits}
        {validate_args}
    Raises: ValueError for both or neither of `probs` and `logits`, or values outside their range.

    Example:
        >>> flambeau.distributions.Bernoulli(0.25).variance
        tensor(0.1875)
    """

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name = one_of(type(self).__name__, probs, logits)
        (self.__dict__[name],) = broadcast_all(probs if name == "probs" else logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The probability of 1."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier value; NaN where both are equally likely."""
        return (self.probs >= 0.5).to(self.probs).masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        """The product p (1 - p)."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw zeros and ones."""
        with flambeau.no_grad():
            return flambeau.bernoulli(self.probs.expand(tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return log p or log(1 - p)."""
        logits, wanted = broadcast_all(self.logits, self._checked(value))
        return -binary_cross_entropy_with_logits(logits, wanted, reduction="none")

    def entropy(self) -> Tensor:
        """Return -p log p - (1 - p) log(1 - p)."""
        return _binary_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return 0 and 1."""
        values = flambeau.arange(2, dtype=self._param.dtype, device=self._param.device)
        return self._enumerated(values, expand)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (flambeau.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return flambeau.log1p(flambeau.exp(x))


@described
class Geometric(_Odds):
    """Geometric distribution: the number of failures before the first success.

    Support: 0, 1, 2, ...

    Formula:
        p(k) = (1 - probs)^k probs

    Args:
        probs: the probability of success, in (0, 1]. Give either `probs` or `logits`.
        {logits}
        {validate_args}
    Raises: ValueError for both or neither of `probs` and `logits`, or values outside their range.

    Example:
        >>> flambeau.distributions.Geometric(0.25).mean
        tensor(3.)
    """

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name = one_of(type(self).__name__, probs, logits)
        (self.__dict__[name],) = broadcast_all(probs if name == "probs" else logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(
                f"Geometric: Expected parameter probs of distribution {self!r} to be positive, got a "
                f"minimum of {self.probs.min().item()}"
            )

    @property
    def mean(self) -> Tensor:
        """1 / p - 1."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        """0."""
        return flambeau.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """(1 / p - 1) / p."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw by the inverse of the distribution function."""
        with flambeau.no_grad():
            u = self.probs.new_empty(tuple(self._extended_shape(sample_shape)))
            u.uniform_(flambeau.finfo(u.dtype).tiny, 1)
            return (u.log() / flambeau.log1p(-self.probs)).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return k log(1 - p) + log p."""
        count, p = broadcast_all(self._checked(value), self.probs)
        sure = (p == 1) & (count == 0)
        return count * flambeau.log1p(-p.masked_fill(sure, 0)) + self.probs.log()

    def entropy(self) -> Tensor:
        """Return the entropy of one trial, divided by p."""
        return _binary_entropy(self.logits, self.probs) / self.probs


@described
class Poisson(ExponentialFamily):
    """Poisson distribution: the number of independent events in a unit of time.

    Support: 0, 1, 2, ...

    Formula:
        p(k) = rate^k e^-rate / k!

    Args:
        rate: the expected number of events, 0 or more.
        {validate_args}
    Raises: ValueError for a negative rate.

    Example:
        >>> flambeau.distributions.Poisson(2.5).mode
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The rate."""
        return self.rate

    @property
    def variance(self) -> Tensor:
        """The rate."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The rate, rounded down."""
        return self.rate.floor()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw counts."""
        with flambeau.no_grad():
            return flambeau.poisson(self.rate.expand(tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return k log(rate) - rate - log(k!)."""
        rate, count = broadcast_all(self.rate, self._checked(value))
        return flambeau.xlogy(count, rate) - rate - (count + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (flambeau.log(self.rate),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return flambeau.exp(x)


def _with_counts(self: Any, total_count: Any, probs: Any, logits: Any) -> None:
    """Set total_count and the given parameter, of one shape and dtype."""
    name = one_of(type(self).__name__, probs, logits)
    self.total_count, self.__dict__[name] = broadcast_all(total_count, probs if name == "probs" else logits)
    self.total_count = self.total_count.type_as(self.__dict__[name])


@described
class Binomial(_Odds):
    """Binomial distribution: the number of successes in independent trials.

    Support: 0, ..., total_count.

    Formula:
        p(k) = binom(total_count, k) probs^k (1 - probs)^(total_count - k)

    Args:
        total_count: the number of trials, a nonnegative integer or a tensor of them.
        {probs}
        {logits}
        {validate_args}
    Raises: ValueError for both or neither of `probs` and `logits`, or values outside their range.

    Example:
        >>> flambeau.distributions.Binomial(4, flambeau.tensor(0.5)).mean
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    total_count: Tensor

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        _with_counts(self, total_count, probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """0 .. total_count."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """The product n p."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """(n + 1) p rounded down, at most n."""
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        """The product n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw counts."""
        shape = tuple(self._extended_shape(sample_shape))
        with flambeau.no_grad():
            return flambeau.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability, exact for large logits."""
        value = self._checked(value)
        factorials = flambeau.lgamma(value + 1) + flambeau.lgamma(self.total_count - value + 1)
        factorials = factorials - flambeau.lgamma(self.total_count + 1)
        # log(1 + e^logits), split so that neither part overflows.
        positive = (self.logits + self.logits.abs()) / 2
        norm = positive + flambeau.log1p(flambeau.exp(-flambeau.abs(self.logits)))
        return value * self.logits - self.total_count * norm - factorials

    def entropy(self) -> Tensor:
        """Return the expected negative log_prob, summed over all values.

        Raises: NotImplementedError unless all total counts are the same.
        """
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(
                "entropy: expected equal total counts, got an inhomogeneous total_count"
            )
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(flambeau.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return 0 .. total_count. Raises: NotImplementedError unless all total counts are the same."""
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(
                "enumerate_support: expected equal total counts, got an inhomogeneous total_count"
            )
        values = flambeau.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        return self._enumerated(values, expand)


@described
class NegativeBinomial(_Odds):
    """Negative binomial distribution: the number of successes before `total_count` failures.

    Support: 0, 1, 2, ...

    Formula:
        p(k) = Gamma(total_count + k) / (k! Gamma(total_count)) (1 - probs)^total_count probs^k

    Args:
        total_count: the number of failures, 0 or more; it need not be an integer.
        probs: the probability of success, in [0, 1). Give either `probs` or `logits`.
        {logits}
        {validate_args}
    Raises: ValueError for both or neither of `probs` and `logits`, or values outside their range.

    Example:
        >>> flambeau.distributions.NegativeBinomial(3.0, flambeau.tensor(0.5)).mean
        tensor(3.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    total_count: Tensor

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        _with_counts(self, total_count, probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """N p / (1 - p)."""
        return self.total_count * flambeau.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        """(n - 1) p / (1 - p) rounded down, at least 0."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        """N p / (1 - p)^2."""
        return self.mean / flambeau.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, flambeau.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw counts of a Poisson distribution whose rate is a gamma sample."""
        with flambeau.no_grad():
            return flambeau.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability."""
        value = self._checked(value)
        likelihood = self.total_count * flambeau.nn.functional.logsigmoid(-self.logits)
        likelihood = likelihood + value * flambeau.nn.functional.logsigmoid(self.logits)
        total = self.total_count + value
        norm = -flambeau.lgamma(total) + flambeau.lgamma(1.0 + value) + flambeau.lgamma(self.total_count)
        return likelihood - norm.masked_fill(total == 0.0, 0.0)
