"""Categorical families: a class as a number or as a one-hot vector, and counts of classes."""

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
from flambeau.distributions.utils import lazy_property, logits_to_probs, probs_to_logits


@described
class Categorical(Distribution):
    """Categorical distribution: the index of one of several classes.

    Support: 0, ..., number of classes - 1.

    Formula:
        p(k) = probs_k

    Args:
        probs: the probabilities of the classes along the last dimension, 0 or more; they are normalized. Give
            either `probs` or `logits`.
        logits: the logarithms of the probabilities, up to a constant.
        {validate_args}
    Raises: ValueError for both or neither of `probs` and `logits`, 0-dim ones, or values outside their range.

    Example:
        >>> flambeau.distributions.Categorical(flambeau.tensor([1.0, 3.0])).probs
        tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name = one_of(type(self).__name__, probs, logits)
        value = probs if name == "probs" else logits
        if value.dim() < 1:
            raise ValueError(
                f"{type(self).__name__}: expected {name} to be at least one-dimensional, got a 0-dim tensor"
            )
        if name == "probs":
            self.probs = value / value.sum(-1, keepdim=True)
        else:
            self.logits = value - value.logsumexp(-1, keepdim=True)
        self._num_events = value.shape[-1]
        super().__init__(value.shape[:-1], validate_args=validate_args)

    _kept = ("_num_events",)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The numbers of the classes."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()

    def _no_number(self) -> Tensor:
        return self.probs.new_full(tuple(self._extended_shape()), math.nan)

    @property
    def mean(self) -> Tensor:
        """NaN: classes are not numbers."""
        return self._no_number()

    @property
    def variance(self) -> Tensor:
        """NaN: classes are not numbers."""
        return self._no_number()

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return self.probs.argmax(dim=-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw classes."""
        rows = self.probs.reshape(-1, self._num_events)
        count = Size(sample_shape).numel()
        with flambeau.no_grad():
            drawn = flambeau.multinomial(rows, count, True).T
        return drawn.reshape(tuple(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the class's probability."""
        value = self._checked(value).long().unsqueeze(-1)
        value, logits = flambeau.broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return -sum p log p."""
        lowest = flambeau.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=lowest) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all classes."""
        values = flambeau.arange(self._num_events, dtype=flambeau.long, device=self._param.device)
        return self._enumerated(values, expand)


class _OfClasses(Distribution):
    """A distribution that takes its parameters from a `Categorical`."""

    arg_constraints: ClassVar[dict[str, Any]] = Categorical.arg_constraints
    _categorical: Categorical

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = self._get_checked_instance(self._family(), _instance)
        new.__dict__.update({name: self.__dict__[name] for name in self._kept})
        new._categorical = self._categorical.expand(batch_shape)
        return self._settle(new, batch_shape)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape


@described
class OneHotCategorical(_OfClasses):
    """Categorical distribution over vectors with a single 1.

    Support: one-hot vectors.

    Formula:
        p(x) = prod_i probs_i^x_i

    Args:
        probs: the probabilities of the classes along the last dimension, 0 or more; they are normalized. Give
            either `probs` or `logits`.
        logits: the logarithms of the probabilities, up to a constant.
        {validate_args}
    Raises: ValueError for both or neither of `probs` and `logits`, 0-dim ones, or values outside their range.

    Example:
        >>> flambeau.distributions.OneHotCategorical(flambeau.tensor([1.0, 3.0])).mode
        tensor([0., 1.])
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        classes = self._categorical.probs.argmax(-1)
        return flambeau.nn.functional.one_hot(classes, self._event_shape[0]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        """The product p (1 - p)."""
        return self._categorical.probs * (1 - self._categorical.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw vectors."""
        drawn = self._categorical.sample(sample_shape)
        return flambeau.nn.functional.one_hot(drawn, self._event_shape[0]).to(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the class's probability."""
        return self._categorical.log_prob(self._checked(value).max(-1)[1])

    def entropy(self) -> Tensor:
        """Return -sum p log p."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all vectors."""
        values = flambeau.eye(self._event_shape[0], dtype=self._param.dtype, device=self._param.device)
        return self._enumerated(values, expand)


@described
class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot categorical distribution whose ``rsample`` passes gradients on to the probabilities unchanged.

    Support: one-hot vectors.

    Formula:
        rsample = sample + probs - stop_gradient(probs)

    Args:
        probs: the probabilities of the classes along the last dimension, 0 or more; they are normalized. Give
            either `probs` or `logits`.
        logits: the logarithms of the probabilities, up to a constant.
        {validate_args}
    Raises: ValueError for both or neither of `probs` and `logits`, 0-dim ones, or values outside their range.
    Source: Bengio, Leonard & Courville 2013, "Estimating or Propagating Gradients Through Stochastic Neurons
        for Conditional Computation", section 4.

    Example:
        >>> flambeau.distributions.OneHotCategoricalStraightThrough(flambeau.ones(2)).rsample().sum()
        tensor(1.)
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw vectors with the gradient of the probabilities."""
        samples, probs = self.sample(sample_shape), self._categorical.probs
        return samples + (probs - probs.detach())


@described
class Multinomial(_OfClasses):
    """Multinomial distribution: the number of occurrences of each class in independent draws.

    Support: vectors of nonnegative integers with the sum total_count.

    Formula:
        p(k) = total_count! prod_i probs_i^k_i / k_i!

    Args:
        total_count: the number of draws, one int for the whole batch.
        probs: the probabilities of the classes along the last dimension, 0 or more; they are normalized. Give
            either `probs` or `logits`.
        logits: the logarithms of the probabilities, up to a constant.
        {validate_args}
    Raises: NotImplementedError if `total_count` is not an int; ValueError for both or neither of `probs` and
        `logits`, 0-dim ones, or values outside their range.

    Example:
        >>> flambeau.distributions.Multinomial(4, flambeau.ones(2)).mean
        tensor([2., 2.])
    """

    _kept = ("total_count",)

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                "Multinomial: inhomogeneous total_count is not supported; pass one int for all"
            )
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """The product n p."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """The product n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw counts."""
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        drawn = drawn.permute(*range(1, drawn.dim()), 0)
        counts = self.probs.new_zeros(tuple(self._extended_shape(sample_shape)))
        return counts.scatter_add_(-1, drawn, flambeau.ones_like(drawn).to(counts))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability; a class with count 0 may have probability 0."""
        logits, value = flambeau.broadcast_tensors(self.logits, self._checked(value))
        orders = flambeau.lgamma(value.sum(-1) + 1) - flambeau.lgamma(value + 1).sum(-1)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        return orders + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        """Return the expected negative log_prob; the counts of one class are binomial."""
        from flambeau.distributions._trials import Binomial

        n = flambeau.tensor(self.total_count, dtype=self.probs.dtype, device=self.probs.device)
        binomial = Binomial(self.total_count, probs=self.probs)
        counts = binomial.enumerate_support(False)[1:]
        weights = flambeau.exp(binomial.log_prob(counts))
        orders = (weights * flambeau.lgamma(counts + 1)).sum([0, -1])
        return n * self._categorical.entropy() - flambeau.lgamma(n + 1) + orders
