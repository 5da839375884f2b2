"""Distributions of vectors, and of several independent events as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau._size import Size
from flambeau.distributions import constraints
from flambeau.distributions.constraints import Constraint
from flambeau.distributions.distribution import Distribution, lazy


class Independent(Distribution):
    """Trailing dimensions of a batch as dimensions of the event: probabilities multiply over them.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: how many dimensions.
        validate_args: whether arguments are checked.
    """

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > batch:
            raise ValueError(
                "Independent: Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"but {reinterpreted_batch_ndims} > {batch}"
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        shape = base_distribution.batch_shape + base_distribution.event_shape
        own = batch - reinterpreted_batch_ndims
        super().__init__(shape[:own], shape[own:], validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As the base."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> Any:
        """Events all parts of which are in the base's set."""
        return constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims)

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

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Independent:
        """Return the distribution for a larger batch."""
        inner = self.base_dist.batch_shape[len(self._batch_shape) :]
        return Independent(self.base_dist.expand(tuple(batch_shape) + tuple(inner)), len(inner))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw events."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw events as functions of the parameters."""
        return self.base_dist.rsample(sample_shape)

    def _summed(self, values: Tensor) -> Tensor:
        n = self.reinterpreted_batch_ndims
        return values.sum(tuple(range(-n, 0))) if n else values

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the sum of the base's."""
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        """Return the sum of the base's."""
        return self._summed(self.base_dist.entropy())

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MultivariateNormal(Distribution):
    """Normal vectors with correlated elements.

    Args:
        loc: the mean.
        covariance_matrix: expected products of deviations; this or one of the next two.
        precision_matrix: the inverse of the covariance.
        scale_tril: the lower triangular L of which L L^T is the covariance.
        validate_args: whether arguments are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: matrix for name, matrix in matrices.items() if matrix is not None}
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional")
        batch = flambeau.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(*batch, loc.shape[-1])
        self.__dict__[name] = matrix.expand(*batch, *matrix.shape[-2:])
        super().__init__(batch, self.loc.shape[-1:], validate_args)
        self._factor = self._cholesky()

    def _cholesky(self) -> Tensor:
        if "scale_tril" in self.__dict__:
            return self.__dict__["scale_tril"]
        if "covariance_matrix" in self.__dict__:
            return flambeau.linalg.cholesky(self.__dict__["covariance_matrix"])
        inverse = flambeau.linalg.cholesky(self.__dict__["precision_matrix"].flip(-2, -1))
        upper = inverse.flip(-2, -1).mT
        eye = flambeau.eye(upper.shape[-1], dtype=upper.dtype)
        return flambeau.linalg.solve_triangular(upper, eye, upper=False)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> MultivariateNormal:
        """Return the distribution for a larger batch."""
        new = super().expand(batch_shape)
        new._factor = self._factor.expand(*batch_shape, *self._factor.shape[-2:])
        return new

    @lazy
    def scale_tril(self) -> Tensor:
        """The lower triangular root of the covariance."""
        return self._factor

    @lazy
    def covariance_matrix(self) -> Tensor:
        """Expected products of deviations."""
        return self._factor @ self._factor.mT

    @lazy
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return flambeau.cholesky_inverse(self._factor)

    @property
    def mean(self) -> Tensor:
        """The location."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        return self._factor.square().sum(-1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw loc + L z."""
        noise = flambeau.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype).normal_()
        return self.loc + (self._factor @ noise.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Tensor:
        return self._factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def _distance(self, difference: Tensor) -> Tensor:
        """Squared length in standard deviations."""
        column = flambeau.linalg.solve_triangular(self._factor, difference.unsqueeze(-1), upper=False)
        return column.squeeze(-1).square().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return -(d log(2 pi) + (x - loc)^T cov^-1 (x - loc)) / 2 - log det L."""
        if self._validate_args:
            self._validate_sample(value)
        dims = self._event_shape[0]
        return -(dims * math.log(2 * math.pi) + self._distance(value - self.loc)) / 2 - self._half_log_det()

    def entropy(self) -> Tensor:
        """Return d (1 + log(2 pi)) / 2 + log det L."""
        half = 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()
        return half.expand(Size(self._batch_shape))
