"""Continuous relaxations of classes, whose samples have gradients.

Source: Maddison, Mnih & Teh 2017, "The Concrete Distribution"; Jang, Gu & Poole 2017, "Categorical
Reparameterization with Gumbel-Softmax".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau._types.size import Size
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions._classes import Categorical
from flambeau.distributions._transformed import TransformedDistribution
from flambeau.distributions._trials import _Odds, one_of
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transforms import ExpTransform, SigmoidTransform
from flambeau.distributions.utils import broadcast_all, clamp_probs


@described
class LogitRelaxedBernoulli(_Odds):
    """Distribution of the log odds of a `RelaxedBernoulli` variable.

    Support: real numbers.

    Args:
        temperature: above 0; the lower, the closer samples of `RelaxedBernoulli` are to 0 and 1.
        {probs}
        {logits}
        {validate_args}
    Raises: ValueError for both or neither of `probs` and `logits`, or values outside their range.
    Source: Maddison, Mnih & Teh 2017, "The Concrete Distribution".

    Example:
        >>> from flambeau.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
        >>> LogitRelaxedBernoulli(flambeau.tensor(2.0), probs=flambeau.tensor(0.5)).probs
        tensor(0.5000)
    """

    support = constraints.real
    has_rsample = True
    _kept = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        name = one_of(type(self).__name__, probs, logits)
        (self.__dict__[name],) = broadcast_all(probs if name == "probs" else logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw log-odds."""
        shape = tuple(self._extended_shape(sample_shape))
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(flambeau.rand(shape, dtype=probs.dtype, device=probs.device))
        noise = u.log() - (-u).log1p() + probs.log() - (-probs).log1p()
        return noise / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        logits, value = broadcast_all(self.logits, self._checked(value))
        difference = logits - value.mul(self.temperature)
        temperature = flambeau.as_tensor(self.temperature, dtype=difference.dtype, device=difference.device)
        return temperature.log() + difference - 2 * difference.exp().log1p()


class _Relaxed(TransformedDistribution):
    """A relaxed distribution that has the parameters of its base."""

    @property
    def temperature(self) -> Any:
        """The parameter of the base."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The parameter of the base."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The parameter of the base."""
        return self.base_dist.probs


@described
class RelaxedBernoulli(_Relaxed):
    """Continuous relaxation of the Bernoulli distribution, with differentiable samples in (0, 1).

    Support: [0, 1].

    Formula:
        x = sigmoid((logits + log u - log(1 - u)) / temperature), u uniform on (0, 1)

    Args:
        temperature: above 0; the lower, the closer samples are to 0 and 1.
        {probs}
        {logits}
        {validate_args}
    Raises: ValueError for both or neither of `probs` and `logits`, or values outside their range.
    Source: Maddison, Mnih & Teh 2017, "The Concrete Distribution"; Jang, Gu & Poole 2017, "Categorical
        Reparameterization with Gumbel-Softmax".

    Example:
        >>> flambeau.distributions.RelaxedBernoulli(flambeau.tensor(2.0), probs=flambeau.tensor(0.5)).probs
        tensor(0.5000)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


@described
class ExpRelaxedCategorical(Distribution):
    """Distribution of the logarithms of a `RelaxedOneHotCategorical` variable.

    Support: vectors whose exponentials have the sum 1.

    Args:
        temperature: above 0; the lower, the closer samples of `RelaxedOneHotCategorical` are to one-hot
            vectors.
        probs: the probabilities of the classes along the last dimension, 0 or more; they are normalized. Give
            either `probs` or `logits`.
        logits: the logarithms of the probabilities, up to a constant.
        {validate_args}
    Raises: ValueError for both or neither of `probs` and `logits`, or values outside their range.
    Source: Maddison, Mnih & Teh 2017, "The Concrete Distribution".

    Example:
        >>> from flambeau.distributions.relaxed_categorical import ExpRelaxedCategorical
        >>> ExpRelaxedCategorical(flambeau.tensor(2.0), probs=flambeau.ones(2)).event_shape
        flambeau.Size([2])
    """

    arg_constraints: ClassVar[dict[str, Any]] = Categorical.arg_constraints
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = self._get_checked_instance(ExpRelaxedCategorical, _instance)
        new.temperature, new._categorical = self.temperature, self._categorical.expand(batch_shape)
        return self._settle(new, batch_shape)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw vectors: logits with Gumbel noise, normalised."""
        shape = tuple(self._extended_shape(sample_shape))
        u = clamp_probs(flambeau.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-(u.log())).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        count = self._categorical._num_events
        logits, value = broadcast_all(self.logits, self._checked(value))
        temperature = flambeau.as_tensor(self.temperature, dtype=logits.dtype, device=logits.device)
        order = temperature.new_full(temperature.shape, float(count)).lgamma()
        scale = order - temperature.log().mul(-(count - 1))
        score = logits - value.mul(temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + scale


@described
class RelaxedOneHotCategorical(_Relaxed):
    """Continuous relaxation of the one-hot categorical distribution, with differentiable samples.

    Support: the simplex.

    Formula:
        x = softmax((logits + g) / temperature), g_i from the standard Gumbel distribution

    Args:
        temperature: above 0; the lower, the closer samples are to one-hot vectors.
        probs: the probabilities of the classes along the last dimension, 0 or more; they are normalized. Give
            either `probs` or `logits`.
        logits: the logarithms of the probabilities, up to a constant.
        {validate_args}
    Raises: ValueError for both or neither of `probs` and `logits`, or values outside their range.
    Source: Maddison, Mnih & Teh 2017, "The Concrete Distribution"; Jang, Gu & Poole 2017, "Categorical
        Reparameterization with Gumbel-Softmax".

    Example:
        >>> p = flambeau.distributions.RelaxedOneHotCategorical(flambeau.tensor(2.0), probs=flambeau.ones(2))
        >>> p.event_shape
        flambeau.Size([2])
    """

    arg_constraints: ClassVar[dict[str, Any]] = Categorical.arg_constraints
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
