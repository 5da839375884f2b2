"""Vectors with correlated elements, and random matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions._gamma import Beta
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import _standard_normal, broadcast_all, lazy_property


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices times vectors; both broadcast."""
    return flambeau.matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """Squared lengths of L^-1 x; one factorised matrix may serve many vectors."""
    column = flambeau.linalg.solve_triangular(bL, bx.unsqueeze(-1), upper=False)
    return column.squeeze(-1).square().sum(-1)


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The lower Cholesky factor of P^-1, without inverting P."""
    reversed_root = flambeau.linalg.cholesky(P.flip((-2, -1)))
    upper = reversed_root.flip((-2, -1)).mT
    identity = flambeau.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return flambeau.linalg.solve_triangular(upper, identity, upper=False)


def _half_log_det(factor: Tensor) -> Tensor:
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


@described
class MultivariateNormal(Distribution):
    """Multivariate normal distribution.

    Support: vectors of d elements.

    Formula:
        log p(x) = -(d log(2 pi) + (x - loc)^T C^-1 (x - loc)) / 2 - log det L, C = L L^T

    Args:
        loc: the mean, of shape ``(*, d)``.
        covariance_matrix: C, positive definite, of shape ``(*, d, d)``. Give exactly one of the three
            matrices.
        precision_matrix: the inverse of C.
        scale_tril: L, lower triangular with a positive diagonal; the fastest of the three.
        {validate_args}
    Raises: ValueError without exactly one matrix, for a 0-dim `loc`, or a matrix outside its range.

    Example:
        >>> flambeau.distributions.MultivariateNormal(flambeau.zeros(2), flambeau.eye(2)).variance
        tensor([1., 1.])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
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
        if loc.dim() < 1:
            raise ValueError(
                "MultivariateNormal: expected loc to be at least one-dimensional, got a 0-dim tensor"
            )
        name, matrix = one_matrix(type(self).__name__, covariance_matrix, precision_matrix, scale_tril)
        batch = flambeau.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        self.loc = loc.expand((*batch, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = root_of(name, matrix)

    _kept = ("_unbroadcasted_scale_tril",)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular root of the covariance."""
        return self._unbroadcasted_scale_tril.expand((*self._batch_shape, *self._event_shape * 2))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Expected products of deviations."""
        root = self._unbroadcasted_scale_tril
        return (root @ root.mT).expand((*self._batch_shape, *self._event_shape * 2))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        inverse = flambeau.cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand((*self._batch_shape, *self._event_shape * 2))

    @property
    def mean(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        squared = self._unbroadcasted_scale_tril.square().sum(-1)
        return squared.expand(tuple(self._batch_shape + self._event_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw loc + L z."""
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        offset = self._checked(value) - self.loc
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, offset)
        norm = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (norm + distance) - _half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self) -> Tensor:
        """Return d (1 + log(2 pi)) / 2 + log det L."""
        half = _half_log_det(self._unbroadcasted_scale_tril)
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half
        return entropy.expand(tuple(self._batch_shape)) if self._batch_shape else entropy


def one_matrix(
    who: str, covariance: Any, precision: Any, root: Any, error: type[Exception] = ValueError
) -> tuple[str, Tensor]:
    """Return the given matrix and its name. Raises: `error` unless exactly one matrix is given."""
    named = {"covariance_matrix": covariance, "precision_matrix": precision, "scale_tril": root}
    given = {name: matrix for name, matrix in named.items() if matrix is not None}
    if len(given) != 1:
        raise error(
            f"{who}: expected exactly one of covariance_matrix, precision_matrix and scale_tril, got "
            f"{', '.join(given) or 'none'}"
        )
    ((name, matrix),) = given.items()
    if matrix.dim() < 2:
        raise ValueError(
            f"{who}: expected {name} to be at least two-dimensional, got shape {tuple(matrix.shape)}"
        )
    return name, matrix


def root_of(name: str, matrix: Tensor) -> Tensor:
    """The lower Cholesky factor of the covariance."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return flambeau.linalg.cholesky(matrix)
    return _precision_to_scale_tril(matrix)


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """The Cholesky factor of I + W^T D^-1 W."""
    rank = W.size(-1)
    capacitance = (W.mT / D.unsqueeze(-2)) @ W
    return flambeau.linalg.cholesky(capacitance + flambeau.eye(rank, dtype=W.dtype, device=W.device))


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """Log det (W W^T + D) by the matrix determinant lemma."""
    return 2 * _half_log_det(capacitance_tril) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """x^T (W W^T + D)^-1 x by the Woodbury identity."""
    scaled = W.mT / D.unsqueeze(-2)
    return (x.square() / D).sum(-1) - _batch_mahalanobis(capacitance_tril, _batch_mv(scaled, x))


@described
class LowRankMultivariateNormal(Distribution):
    """Multivariate normal distribution with a covariance matrix of low rank plus a diagonal.

    The covariance matrix W W^T + diag(D) is not formed.

    Support: vectors of d elements.

    Args:
        loc: the mean, of shape ``(*, d)``.
        cov_factor: W, of shape ``(*, d, rank)``.
        cov_diag: D > 0, of shape ``(*, d)``.
        {validate_args}
    Raises: ValueError for shapes that do not fit or `cov_diag` outside its range.
    See also: `MultivariateNormal`
    Source: Woodbury 1950, "Inverting Modified Matrices".

    Example:
        >>> from flambeau.distributions import LowRankMultivariateNormal
        >>> LowRankMultivariateNormal(flambeau.zeros(2), flambeau.ones(2, 1), flambeau.ones(2)).variance
        tensor([2., 2.])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _kept = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError(
                "LowRankMultivariateNormal: expected loc to be at least one-dimensional, got a 0-dim tensor"
            )
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "LowRankMultivariateNormal: expected cov_factor to be at least two-dimensional, got "
                f"shape {tuple(cov_factor.shape)}"
            )
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(
                f"LowRankMultivariateNormal: expected cov_factor of shape (*, {event[0]}, rank), got "
                f"{tuple(cov_factor.shape)}"
            )
        if cov_diag.shape[-1:] != event:
            raise ValueError(
                f"LowRankMultivariateNormal: expected cov_diag of shape (*, {event[0]}), got "
                f"{tuple(cov_diag.shape)}"
            )
        try:
            shapes = loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
            batch = flambeau.broadcast_shapes(*shapes)
        except RuntimeError as error:
            raise ValueError(
                f"LowRankMultivariateNormal: expected batch shapes that broadcast, got {tuple(loc.shape)} "
                f"as loc, {tuple(cov_factor.shape)} as cov_factor and {tuple(cov_diag.shape)} as cov_diag"
            ) from error
        self.loc = loc.expand((*batch, -1))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, -1))
        super().__init__(batch, event, validate_args=validate_args)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)

    @property
    def mean(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        diagonal = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return diagonal.expand(tuple(self._batch_shape + self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular root of the covariance: D^1/2 times that of D^-1/2 W W^T D^-1/2 + 1."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        identity = flambeau.eye(self._event_shape[0], dtype=scaled.dtype, device=scaled.device)
        factor = root * flambeau.linalg.cholesky(scaled @ scaled.mT + identity)
        return factor.expand((*self._batch_shape, *self._event_shape * 2))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """W W^T + diag(D)."""
        factor = self._unbroadcasted_cov_factor
        covariance = factor @ factor.mT + flambeau.diag_embed(self._unbroadcasted_cov_diag)
        return covariance.expand((*self._batch_shape, *self._event_shape * 2))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        diagonal = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2)
        part = flambeau.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        precision = flambeau.diag_embed(diagonal.reciprocal()) - part.mT @ part
        return precision.expand((*self._batch_shape, *self._event_shape * 2))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw loc + W z1 + D^1/2 z2."""
        shape, options = (
            self._extended_shape(sample_shape),
            {"dtype": self.loc.dtype, "device": self.loc.device},
        )
        low = _standard_normal((*shape[:-1], self.cov_factor.shape[-1]), **options)
        full = _standard_normal(shape, **options)
        correlated = _batch_mv(self._unbroadcasted_cov_factor, low)
        return self.loc + correlated + self._unbroadcasted_cov_diag.sqrt() * full

    def _log_det(self) -> Tensor:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        distance = _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            self._checked(value) - self.loc,
            self._capacitance_tril,
        )
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Tensor:
        """Return d (1 + log(2 pi)) / 2 + log det / 2."""
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(tuple(self._batch_shape)) if self._batch_shape else entropy


@described
class LKJCholesky(Distribution):
    """LKJ distribution of the Cholesky factors of correlation matrices.

    Support: lower triangular matrices with a positive diagonal and rows of length 1.

    Formula:
        p(M) proportional to det(M)^(concentration - 1), M = L L^T

    Args:
        dim: the number of rows, 2 or more.
        concentration: the exponent plus 1, above 0. 1 gives all correlation matrices the same density.
        {validate_args}
    Raises: ValueError if `dim` is below 2 or the concentration outside its range.
    Source: Lewandowski, Kurowicka & Joe 2009, "Generating Random Correlation Matrices Based on Vines and
        Extended Onion Method", section 3.2.

    Example:
        >>> flambeau.distributions.LKJCholesky(3, 0.5).event_shape
        flambeau.Size([3, 3])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _kept = ("dim",)

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"LKJCholesky: expected dim >= 2, got {dim}")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # The squared length of row i beside its diagonal is a beta number.
        marginal = self.concentration + 0.5 * (dim - 2)
        offset = flambeau.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        offset = flambeau.cat([offset.new_zeros((1,)), offset])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(self.concentration.size(), (dim, dim), validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution for a larger batch."""
        new = super().expand(batch_shape, _instance)
        new._beta = self._beta.expand((*batch_shape, self.dim))
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw factors by the onion method: directions on spheres, and lengths of beta numbers."""
        with flambeau.no_grad():
            squared = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = tuple(self._extended_shape(sample_shape))
            normal = flambeau.randn(shape, dtype=squared.dtype, device=squared.device).tril(-1)
            direction = normal / normal.norm(2, -1, True)
            direction[..., 0, :].fill_(0.0)
            rows = flambeau.sqrt(squared) * direction
            tiny = flambeau.finfo(rows.dtype).tiny
            diagonal = flambeau.clamp(1 - rows.square().sum(-1), min=tiny).sqrt()
            return rows + flambeau.diag_embed(diagonal)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density of the factor."""
        diagonal = self._checked(value).diagonal(dim1=-1, dim2=-2)[..., 1:]
        rest = self.dim - 1
        order = flambeau.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        density = (order * diagonal.log()).sum(-1)
        alpha = self.concentration + 0.5 * rest
        norm = 0.5 * rest * math.log(math.pi) + flambeau.mvlgamma(alpha - 0.5, rest)
        return density - (norm - flambeau.lgamma(alpha) * rest)
