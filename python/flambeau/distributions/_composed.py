"""Batches as single events, and mixtures of one family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions._classes import Categorical
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import _sum_rightmost

D = TypeVar("D", bound=Distribution)


@described
class Independent(Distribution, Generic[D]):
    """Distribution that counts trailing batch dimensions of another one as event dimensions.

    Formula:
        log p(x) = sum of log p_base(x) over the trailing dimensions

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: the number of trailing batch dimensions that become event dimensions.
        {validate_args}
    Raises: ValueError if the batch has fewer dimensions.

    Example:
        >>> from flambeau.distributions import Independent, Normal
        >>> Independent(Normal(flambeau.zeros(3), 1.0), 1).log_prob(flambeau.zeros(3)).shape
        flambeau.Size([])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, base_distribution: D, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > batch:
            raise ValueError(
                f"Independent: expected reinterpreted_batch_ndims <= {batch}, the number of the base's batch "
                f"dimensions, got {reinterpreted_batch_ndims}"
            )
        self.base_dist: Any = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        shape = base_distribution.batch_shape + base_distribution.event_shape
        own = batch - reinterpreted_batch_ndims
        super().__init__(shape[:own], shape[own:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = self._get_checked_instance(Independent, _instance)
        inner = tuple(self._event_shape)[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(tuple(batch_shape) + inner)
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return self._settle(new, batch_shape)

    @property
    def has_rsample(self) -> bool:
        """Whether the base has `rsample`."""
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:
        """Whether the base has `enumerate_support` and no batch dimension is reinterpreted."""
        return self.reinterpreted_batch_ndims == 0 and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        """The base's support, over the reinterpreted dimensions too."""
        base, count = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(base, count) if count else base

    @property
    def mean(self) -> Tensor:
        """The base's."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The base's."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The base's."""
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw events."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw events as functions of the parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the base's value, summed over the reinterpreted dimensions."""
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """Return the base's value, summed over the reinterpreted dimensions."""
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the base's support. Raises: NotImplementedError if dimensions are reinterpreted."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError(
                "Independent.enumerate_support: expected reinterpreted_batch_ndims=0, got "
                f"{self.reinterpreted_batch_ndims}: the support is a cartesian product"
            )
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


@described
class MixtureSameFamily(Distribution):
    """Mixture of distributions of one family.

    Formula:
        p(x) = sum_k probs_k p_k(x)

    Args:
        mixture_distribution: the `Categorical` distribution that chooses the component.
        component_distribution: the distribution whose last batch dimension indexes the components.
        {validate_args}
    Raises: ValueError for another mixture distribution, or if the batch shapes or the number of components
        differ.

    Example:
        >>> from flambeau.distributions import Categorical, MixtureSameFamily, Normal
        >>> p = MixtureSameFamily(Categorical(flambeau.ones(2)), Normal(flambeau.tensor([-1.0, 3.0]), 1.0))
        >>> p.mean
        tensor(1.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution: Any = mixture_distribution
        self._component_distribution: Any = component_distribution
        self._check_components(mixture_distribution, component_distribution)
        self._num_component = component_distribution.batch_shape[-1]
        self._event_ndims = len(component_distribution.event_shape)
        batch = component_distribution.batch_shape[:-1]
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    @staticmethod
    def _check_components(mixture: Any, component: Any) -> None:
        if not isinstance(mixture, Categorical):
            raise ValueError(
                f"MixtureSameFamily: expected a Categorical as the mixture, got {type(mixture).__name__}"
            )
        if not isinstance(component, Distribution):
            raise ValueError(
                f"MixtureSameFamily: expected a Distribution of components, got {type(component).__name__}"
            )
        chosen, given = tuple(mixture.batch_shape), tuple(component.batch_shape[:-1])
        for a, b in zip(reversed(chosen), reversed(given), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    "MixtureSameFamily: expected batch shapes that broadcast, got "
                    f"{chosen} of the mixture and {given} of the components"
                )
        if (km := mixture.logits.shape[-1]) != (kc := component.batch_shape[-1]):
            raise ValueError(
                f"MixtureSameFamily: expected {km} components, one for each class of the mixture, got {kc}"
            )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        shape = (*batch_shape, self._num_component)
        new._component_distribution = self._component_distribution.expand(shape)
        new._mixture_distribution = self._mixture_distribution.expand(tuple(batch_shape))
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return self._settle(new, batch_shape)

    @constraints.dependent_property
    def support(self) -> Any:
        """The support of the components."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The Categorical that chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        """Probabilities of the components, with the dimensions of an event behind them."""
        return self._behind(self.mixture_distribution.probs)

    def _behind(self, x: Tensor) -> Tensor:
        missing = len(self._batch_shape) - len(self.mixture_distribution.batch_shape)
        shape = (*x.shape[:-1], *[1] * missing, x.shape[-1], *[1] * self._event_ndims)
        return x.reshape(shape)

    @property
    def mean(self) -> Tensor:
        """The weighted mean of the components' means."""
        return (self._weights() * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """The weighted mean of the components' variances, plus the variance of their means."""
        dim, weights = -1 - self._event_ndims, self._weights()
        within = (weights * self.component_distribution.variance).sum(dim)
        offsets = self.component_distribution.mean - self.mean.unsqueeze(dim)
        return within + (weights * offsets.pow(2.0)).sum(dim)

    def cdf(self, x: Tensor) -> Tensor:
        """Return the weighted mean of the components' distribution functions."""
        parts = self.component_distribution.cdf(x.unsqueeze(-1 - self._event_ndims))
        return (parts * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the logarithm of the components' weighted densities."""
        value = self._checked(x).unsqueeze(-1 - self._event_ndims)
        logits = flambeau.log_softmax(self.mixture_distribution.logits, dim=-1)
        return flambeau.logsumexp(self.component_distribution.log_prob(value) + logits, dim=-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw a component for each event, draw from all components, and select."""
        with flambeau.no_grad():
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self._batch_shape)
            events = tuple(self._event_shape)
            index = chosen.reshape((*chosen.shape, *[1] * (self._event_ndims + 1)))
            index = index.expand((*drawn.shape[:dim], 1, *events))
            return flambeau.gather(drawn, dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
