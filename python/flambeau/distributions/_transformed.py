"""Distributions of transformed samples, and families that are defined by a transform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions._bounded import Uniform
from flambeau.distributions._composed import Independent
from flambeau.distributions._location import Cauchy, Normal
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    StickBreakingTransform,
    Transform,
)
from flambeau.distributions.utils import _sum_rightmost, broadcast_all, euler_constant


@described
class TransformedDistribution(Distribution):
    """Distribution of transformed samples of another distribution.

    Formula:
        log p(y) = log p_base(x) - log |det dy/dx|, y = transforms(x)

    Args:
        base_distribution: the distribution of x.
        transforms: a `Transform`, or a list of them, applied from first to last.
        {validate_args}
    Raises: ValueError if `transforms` contains anything else, or if the base has too few dimensions for them.

    Example:
        >>> from flambeau.distributions import ExpTransform, Normal, TransformedDistribution
        >>> p = TransformedDistribution(Normal(0.0, 1.0), ExpTransform())
        >>> p.cdf(flambeau.tensor(1.0))
        tensor(0.5000)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(transforms, Transform):
            transforms = [transforms]
        if not isinstance(transforms, list) or not all(isinstance(t, Transform) for t in transforms):
            raise ValueError(f"TransformedDistribution: expected one Transform or a list, got {transforms}")
        self.transforms: list[Transform] = transforms
        shape = base_distribution.batch_shape + base_distribution.event_shape
        chain = ComposeTransform(self.transforms)
        if len(shape) < chain.domain.event_dim:
            raise ValueError(
                f"TransformedDistribution: expected a base of at least {chain.domain.event_dim} dimensions, "
                f"got shape {tuple(shape)}"
            )
        out = chain.forward_shape(shape)
        expanded = base_distribution.batch_shape + base_distribution.event_shape
        wanted = chain.inverse_shape(out)
        if tuple(wanted) != tuple(expanded):
            cut = len(wanted) - len(base_distribution.event_shape)
            base_distribution = base_distribution.expand(wanted[:cut])
        own = chain.domain.event_dim - len(base_distribution.event_shape)
        if own > 0:
            base_distribution = Independent(base_distribution, own)
        self.base_dist: Any = base_distribution
        grown = chain.codomain.event_dim - chain.domain.event_dim
        event_dim = max(chain.codomain.event_dim, len(base_distribution.event_shape) + grown)
        cut = len(out) - event_dim
        super().__init__(out[:cut], out[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = self._get_checked_instance(self._family(), _instance)
        shape = ComposeTransform(self.transforms).inverse_shape(tuple(batch_shape) + tuple(self._event_shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        for name in self.arg_constraints:
            if isinstance(value := self.__dict__.get(name), Tensor):
                new.__dict__[name] = value.expand(tuple(batch_shape))
        return self._settle(new, batch_shape)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The last transform's codomain, over whole events."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        further = len(self._event_shape) - support.event_dim
        return constraints.independent(support, further) if further > 0 else support

    @property
    def has_rsample(self) -> bool:
        """Whether the base has `rsample`."""
        return bool(self.base_dist.has_rsample)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw from the base and transform."""
        with flambeau.no_grad():
            x = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw from the base with gradients and transform."""
        x = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the base's density at the inverse, less the logarithm of the Jacobian's determinant."""
        y = self._checked(value)
        event_dim = len(self._event_shape)
        total: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            jacobian = transform.log_abs_det_jacobian(x, y)
            total = total - _sum_rightmost(jacobian, event_dim - transform.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return total + _sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _monotone(self, value: Tensor) -> Tensor:
        """Return p, or 1 - p where the transforms decrease."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """Return the base's distribution function at the inverse of the value."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the base's quantile, transformed."""
        value = self.base_dist.icdf(self._monotone(value))
        for transform in self.transforms:
            value = transform(value)
        return value


class _OfNormal(TransformedDistribution):
    """Given by `loc` and `scale` of a normal base."""

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    has_rsample = True


@described
class LogNormal(_OfNormal):
    """Distribution of the exponential of a normal variable.

    Support: x > 0.

    Formula:
        p(x) = e^(-((log x - loc) / scale)^2 / 2) / (x scale sqrt(2 pi))

    Args:
        loc: the mean of the logarithm.
        scale: the standard deviation of the logarithm, above 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.

    Example:
        >>> flambeau.distributions.LogNormal(0.0, 1.0).mode
        tensor(0.3679)
    """

    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """e^(loc + scale^2 / 2)."""
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        """e^(loc - scale^2)."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """(e^(scale^2) - 1) e^(2 loc + scale^2)."""
        squared = self.scale.pow(2)
        return squared.expm1() * (2 * self.loc + squared).exp()

    def entropy(self) -> Tensor:
        """Return the entropy of the logarithm plus loc."""
        return self.base_dist.entropy() + self.loc


@described
class LogisticNormal(_OfNormal):
    """Logistic normal distribution: stick breaking of a normal vector of n elements into n + 1 shares.

    Support: the simplex.

    Args:
        loc: the means of the normal vector along the last dimension.
        scale: the standard deviations, above 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.
    See also: `StickBreakingTransform`
    Source: Aitchison & Shen 1980, "Logistic-Normal Distributions", with stick breaking instead of the
        additive log ratio.

    Example:
        >>> flambeau.distributions.LogisticNormal(flambeau.zeros(2), flambeau.ones(2)).event_shape
        flambeau.Size([3])
    """

    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Means of the normal vector."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviations of the normal vector."""
        return self.base_dist.base_dist.scale


class _Half(TransformedDistribution):
    """The absolute value of a symmetric number around 0."""

    arg_constraints: ClassVar[dict[str, Any]] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    @property
    def scale(self) -> Tensor:
        """The base's."""
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        """0."""
        return flambeau.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the base's value plus log 2; -inf below 0."""
        value = flambeau.as_tensor(self._checked(value), dtype=self.scale.dtype, device=self.scale.device)
        return flambeau.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Return 2 F(x) - 1."""
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        """Return the base's quantile of (prob + 1) / 2."""
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        """Return the base's entropy minus log 2."""
        return self.base_dist.entropy() - math.log(2)


@described
class HalfNormal(_Half):
    """Distribution of the absolute value of a normal variable with mean 0.

    Support: x >= 0.

    Formula:
        p(x) = 2 e^(-(x / scale)^2 / 2) / (scale sqrt(2 pi))

    Args:
        scale: the standard deviation of the normal variable, above 0.
        {validate_args}
    Raises: ValueError for a scale outside its range.

    Example:
        >>> flambeau.distributions.HalfNormal(1.0).mean
        tensor(0.7979)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Scale sqrt(2 / pi)."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        """scale^2 (1 - 2 / pi)."""
        return self.scale.pow(2) * (1 - 2 / math.pi)


@described
class HalfCauchy(_Half):
    """Distribution of the absolute value of a Cauchy variable with median 0.

    Support: x >= 0.

    Formula:
        p(x) = 2 / (pi scale (1 + (x / scale)^2))

    Args:
        scale: the median of the result, above 0.
        {validate_args}
    Raises: ValueError for a scale outside its range.

    Example:
        >>> flambeau.distributions.HalfCauchy(3.0).icdf(flambeau.tensor(0.5))
        tensor(3.)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Infinite."""
        return flambeau.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        """Infinite, as for the Cauchy distribution."""
        return self.base_dist.variance


@described
class Gumbel(TransformedDistribution):
    """Gumbel distribution of the maximum of many samples.

    Support: real numbers.

    Formula:
        P(X <= x) = e^(-e^-z), z = (x - loc) / scale

    Args:
        loc: the mode.
        scale: the unit of the distance from `loc`, above 0.
        {validate_args}
    Raises: ValueError for parameters outside their range.

    Example:
        >>> flambeau.distributions.Gumbel(0.0, 1.0).mean
        tensor(0.5772)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = flambeau.finfo(self.loc.dtype)
        # Numbers stay on the class's default device; tensors take the parameters'.
        low, high = (flambeau.full_like(self.loc, v) for v in (limits.tiny, 1 - limits.eps))
        base = Uniform(low, high, validate_args=validate_args)
        affine = AffineTransform(loc=0, scale=-flambeau.ones_like(self.scale))
        outer = AffineTransform(loc=self.loc, scale=-self.scale)
        chain: list[Transform] = [ExpTransform().inv, affine, ExpTransform().inv, outer]
        super().__init__(base, chain, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = self._get_checked_instance(self._family(), _instance)
        Gumbel.__init__(
            new, self.loc.expand(batch_shape), self.scale.expand(batch_shape), validate_args=False
        )
        new._validate_args = self._validate_args
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        """Return -z - e^-z - log(scale)."""
        y = (self.loc - self._checked(value)) / self.scale
        return (y - y.exp()) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return e^-e^-z."""
        return (-((self.loc - self._checked(value)) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile."""
        return self.loc - self.scale * (-value.log()).log()

    @property
    def mean(self) -> Tensor:
        """The location plus Euler's constant times the scale."""
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """Scale pi / sqrt(6)."""
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        """scale^2 pi^2 / 6."""
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        """Return log(scale) + 1 + Euler's constant."""
        return self.scale.log() + (1 + euler_constant)
