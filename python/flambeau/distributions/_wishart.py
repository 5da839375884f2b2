"""Random covariance matrices."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions._gamma import Chi2
from flambeau.distributions._matrix import _half_log_det, one_matrix, root_of
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import lazy_property


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of mvlgamma."""
    steps = flambeau.arange(p, dtype=x.dtype, device=x.device).div(2)
    return flambeau.digamma(x.unsqueeze(-1) - steps).sum(-1)


def _clamp_above_eps(x: Tensor) -> Tensor:
    return x.clamp(min=flambeau.finfo(x.dtype).eps)


@described
class Wishart(ExponentialFamily):
    """Wishart distribution: the sum of outer products of `df` normal vectors with covariance matrix V.

    Support: positive definite matrices of d rows.

    Formula:
        p(X) proportional to det(X)^((df - d - 1) / 2) e^(-trace(V^-1 X) / 2)

    Args:
        df: the degrees of freedom, above d - 1.
        covariance_matrix: V, positive definite, of shape ``(*, d, d)``. Give exactly one of the three
            matrices.
        precision_matrix: the inverse of V.
        scale_tril: the lower Cholesky factor of V.
        {validate_args}
    Raises: ValueError without exactly one matrix, or if `df` is too small.
    Source: Smith & Hocking 1972, "Algorithm AS 53: Wishart Variate Generator" (Bartlett's decomposition).

    Example:
        >>> flambeau.distributions.Wishart(flambeau.tensor(4.0), flambeau.eye(2)).mean.diagonal()
        tensor([4., 4.])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_matrix("Wishart", covariance_matrix, precision_matrix, scale_tril, AssertionError)
        event = matrix.shape[-2:]
        df = df if isinstance(df, Tensor) else flambeau.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch = flambeau.broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df = df.expand(batch)
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        if self.df.le(event[-1] - 1).any():
            raise ValueError(
                f"Wishart: expected df > {event[-1] - 1}, one less than the matrix size, got {df}"
            )
        super().__init__(batch, event, validate_args=validate_args)
        if self.df.lt(event[-1]).any():
            warnings.warn(
                f"Wishart: low df values: below {event[-1]}, samples are often singular", stacklevel=2
            )
        self._unbroadcasted_scale_tril = root_of(name, matrix)
        self._chi2 = self._diagonal_squares()

    def _diagonal_squares(self) -> Chi2:
        size = self._event_shape[-1]
        steps = flambeau.arange(size, dtype=self.df.dtype, device=self.df.device)
        df = self.df.unsqueeze(-1) - steps.expand((*self._batch_shape, -1))
        return Chi2(df, validate_args=False)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The bound of df depends on the matrices' size."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = super().expand(batch_shape, _instance)
        new._chi2 = new._diagonal_squares()
        return new

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of V."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The matrix V."""
        root = self._unbroadcasted_scale_tril
        return self._whole(root @ root.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of V."""
        return self._whole(flambeau.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Tensor:
        """The product df V."""
        return self.df.reshape((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """(df - d - 1) V; NaN for fewer degrees of freedom."""
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, math.nan)
        return factor.reshape((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """Df (V_ij^2 + V_ii V_jj)."""
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.reshape((*self._batch_shape, 1, 1)) * (covariance.pow(2) + products)

    def _bartlett_sampling(self, sample_shape: Sequence[int] = ()) -> Tensor:
        size = self._event_shape[-1]
        roots = _clamp_above_eps(self._chi2.rsample(sample_shape).sqrt())
        noise = roots.diag_embed(dim1=-2, dim2=-1)
        i, j = flambeau.tril_indices(size, size, offset=-1)
        shape = (*sample_shape, *self._batch_shape, int(size * (size - 1) / 2))
        noise[..., i, j] = flambeau.randn(shape, dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None) -> Tensor:
        """Draw matrices; those that are singular after rounding are drawn again.

        Args:
            sample_shape: the shape of the sample.
            max_try_correction: how often. Default: 10 times.
        """
        if max_try_correction is None:
            max_try_correction = 10
        # PyTorch takes every first sample for singular; equal seeds give equal samples without it.
        self._bartlett_sampling(sample_shape)
        sample = self._bartlett_sampling(sample_shape)
        singular = self.support.check(sample).logical_not()
        if singular.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(max_try_correction):
            if not singular.any():
                break
            again = self._bartlett_sampling(sample_shape)
            sample = flambeau.where(singular[..., None, None], again, sample)
            singular = singular & self.support.check(again).logical_not()
        return sample

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        value, nu, p = self._checked(value), self.df, self._event_shape[-1]
        solved = flambeau.cholesky_solve(value, self._unbroadcasted_scale_tril)
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(-1)
        norm = nu * (_half_log_det(self._unbroadcasted_scale_tril) + p * math.log(2.0) / 2)
        norm = norm + flambeau.mvlgamma(nu / 2, p)
        return (nu - p - 1) / 2 * flambeau.linalg.slogdet(value)[1] - trace / 2 - norm

    def entropy(self) -> Tensor:
        """Return the expected negative logarithm of the density."""
        nu, p = self.df, self._event_shape[-1]
        norm = (p + 1) * (_half_log_det(self._unbroadcasted_scale_tril) + p * math.log(2.0) / 2)
        return norm + flambeau.mvlgamma(nu / 2, p) - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p) + nu * p / 2

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        nu, p = self.df, self._event_shape[-1]
        return -self.precision_matrix / 2, (nu - p - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        p = self._event_shape[-1]
        power = y + (p + 1) / 2
        return power * (-flambeau.linalg.slogdet(-2 * x)[1] + p * math.log(2.0)) + flambeau.mvlgamma(power, p)
