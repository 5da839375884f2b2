"""Distributions of whole numbers and of classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau._size import Size
from flambeau.distributions import constraints
from flambeau.distributions.constraints import Constraint
from flambeau.distributions.distribution import Distribution, as_tensors, lazy
from flambeau.nn import functional as F


def _one_of(probs: Any, logits: Any) -> tuple[str, Any]:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return ("probs", probs) if logits is None else ("logits", logits)


class _Odds(Distribution):
    """Given by the probability of success, or by the logarithm of its odds."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, value = _one_of(probs, logits)
        (self.__dict__[name],) = as_tensors(value)
        super().__init__(self.__dict__[name].shape, validate_args=validate_args)

    @lazy
    def probs(self) -> Tensor:
        """The probability of success."""
        return self.logits.sigmoid()

    @lazy
    def logits(self) -> Tensor:
        """The logarithm of the odds."""
        eps = flambeau.finfo(self.probs.dtype).eps
        clamped = self.probs.clamp(eps, 1 - eps)
        return clamped.log() - flambeau.log1p(-clamped)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()

    def _checked(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return value


class Bernoulli(_Odds):
    """1 with probability `probs`, 0 otherwise."""

    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        """The probability of 1."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier value; NaN where both are equally likely."""
        likelier = (self.probs >= 0.5).to(self.probs)
        return likelier.masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        """The product p (1 - p)."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw zeros and ones."""
        with flambeau.no_grad():
            return flambeau.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return log p or log(1 - p)."""
        logits, wanted = flambeau.broadcast_tensors(self.logits, self._checked(value))
        return -F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")

    def entropy(self) -> Tensor:
        """Return -p log p - (1 - p) log(1 - p)."""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return 0 and 1."""
        values = flambeau.arange(2, dtype=self._param.dtype).reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class Geometric(_Odds):
    """How many failures come before the first success."""

    support = constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        """1 / p - 1."""
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        """0."""
        return flambeau.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """(1 / p - 1) / p."""
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw by the inverse of the distribution function."""
        with flambeau.no_grad():
            u = flambeau.empty(self._extended_shape(sample_shape), dtype=self.probs.dtype)
            u.uniform_(flambeau.finfo(u.dtype).tiny, 1)
            return (u.log() / flambeau.log1p(-self.probs)).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return k log(1 - p) + log p."""
        count, p = flambeau.broadcast_tensors(self._checked(value), self.probs)
        sure = (p == 1) & (count == 0)
        return count * flambeau.log1p(-p.masked_fill(sure, 0)) + p.log()

    def entropy(self) -> Tensor:
        """Return that of one trial, divided by p."""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Poisson(Distribution):
    """How many events of a given rate happen."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = as_tensors(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The rate."""
        return self.rate

    variance = mean

    @property
    def mode(self) -> Tensor:
        """The rate, rounded down."""
        return self.rate.floor()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw counts."""
        with flambeau.no_grad():
            return flambeau.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return k log(rate) - rate - log(k!)."""
        if self._validate_args:
            self._validate_sample(value)
        rate, count = flambeau.broadcast_tensors(self.rate, value)
        return flambeau.xlogy(count, rate) - rate - (count + 1).lgamma()


class Categorical(Distribution):
    """One of several classes.

    Args:
        probs: probabilities of the classes along the last dimension, up to a factor.
        logits: their logarithms, up to a term.
        validate_args: whether arguments are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, value = _one_of(probs, logits)
        if value.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if name == "probs":
            self.__dict__[name] = value / value.sum(-1, keepdim=True)
        else:
            self.__dict__[name] = value - value.logsumexp(-1, keepdim=True)
        self._num_events = value.shape[-1]
        super().__init__(value.shape[:-1], validate_args=validate_args)

    probs = lazy(lambda self: self.logits.softmax(-1))

    @lazy
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        eps = flambeau.finfo(self.probs.dtype).eps
        return self.probs.clamp(eps, 1 - eps).log()

    @property
    def support(self) -> Any:
        """The classes' numbers."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self.probs.size()

    @property
    def mean(self) -> Tensor:
        """NaN: classes have none."""
        return flambeau.full(tuple(self._extended_shape()), math.nan, dtype=self.probs.dtype)

    variance = mean

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return self.probs.argmax(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw classes."""
        count = math.prod(sample_shape)
        with flambeau.no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = flambeau.multinomial(rows, count, True).T
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithms of the classes' probabilities."""
        if self._validate_args:
            self._validate_sample(value)
        index = value.long().unsqueeze(-1)
        shape = flambeau.broadcast_shapes(index.shape[:-1], self.logits.shape[:-1])
        rows = self.logits.expand(*shape, self._num_events)
        return rows.gather(-1, index.expand(*shape, 1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return -sum p log p."""
        least = flambeau.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all classes."""
        values = flambeau.arange(self._num_events).reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class OneHotCategorical(Categorical):
    """One of several classes, as a vector with one 1."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        self._event_shape = Size((self._num_events,))

    @property
    def support(self) -> Any:
        """Vectors with one 1."""
        return constraints.one_hot

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self.probs

    @property
    def variance(self) -> Tensor:
        """The product p (1 - p)."""
        return self.probs * (1 - self.probs)

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return F.one_hot(self.probs.argmax(-1), self._num_events).to(self.probs)

    def _classes(self) -> Categorical:
        return Categorical(self.probs, validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw vectors."""
        drawn = self._classes().sample(sample_shape)
        return F.one_hot(drawn, self._num_events).to(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the class's probability."""
        if self._validate_args:
            self._validate_sample(value)
        logits, vector = flambeau.broadcast_tensors(self.logits, value)
        return logits.gather(-1, vector.argmax(-1, keepdim=True)).squeeze(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all vectors."""
        values = flambeau.eye(self._num_events, dtype=self.probs.dtype)
        values = values.reshape(-1, *[1] * len(self._batch_shape), self._num_events)
        return values.expand(-1, *self._batch_shape, self._num_events) if expand else values
