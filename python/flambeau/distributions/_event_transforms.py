"""Transforms of vectors, matrices and parts of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._types.size import Size
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions._elementwise_transforms import _clipped_sigmoid
from flambeau.distributions._transform import Transform
from flambeau.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from flambeau.nn.functional import pad, softmax, softplus


def _same_kind(self: Any, other: object) -> bool:
    return type(self) is type(other)


@described
class ReshapeTransform(Transform):
    """Reshaping of events.

    Args:
        in_shape: the shape of an event of x.
        out_shape: the shape of an event of y, with as many elements.
        {cache_size}
    Raises: ValueError if the numbers of elements differ.

    Example:
        >>> flambeau.distributions.ReshapeTransform((4,), (2, 2))(flambeau.zeros(3, 4)).shape
        flambeau.Size([3, 2, 2])
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                "ReshapeTransform: expected as many elements in in_shape as in out_shape, got "
                f"{tuple(self.in_shape)} and {tuple(self.out_shape)}"
            )
        super().__init__(cache_size=cache_size)

    @property
    def domain(self) -> Any:
        """Events of shape `in_shape`."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        """Events of shape `out_shape`."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another cache size."""
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(tuple(x.shape[: x.dim() - len(self.in_shape)]) + tuple(self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(tuple(y.shape[: y.dim() - len(self.out_shape)]) + tuple(self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return 0."""
        return x.new_zeros(tuple(x.shape[: x.dim() - len(self.in_shape)]))

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape with `out_shape` in place of `in_shape`."""
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape with `in_shape` in place of `out_shape`."""
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Sequence[int], old: Size, new: Size) -> Size:
    if len(shape) < len(old):
        raise ValueError(
            f"Transform: Too few dimensions on input: expected {len(old)} or more, got shape {tuple(shape)}"
        )
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(
            f"Transform: Shape mismatch: expected trailing sizes {tuple(old)}, got {tuple(shape[cut:])}"
        )
    return Size(tuple(shape[:cut]) + tuple(new))


@described
class SoftmaxTransform(Transform):
    """Softmax along the last dimension; it is not injective.

    The inverse returns the logarithm.

    Formula:
        y_i = e^x_i / sum_j e^x_j

    Args:
        {cache_size}

    Example:
        >>> flambeau.distributions.SoftmaxTransform()(flambeau.zeros(2))
        tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    __eq__ = _same_kind
    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return softmax(x, dim=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape; raise ValueError for one without dimensions."""
        if len(shape) < 1:
            raise ValueError(
                f"SoftmaxTransform: Too few dimensions on input: expected 1 or more, got shape {tuple(shape)}"
            )
        return shape

    inverse_shape = forward_shape


@described
class StickBreakingTransform(Transform):
    """Bijection from vectors of n elements to the simplex of n + 1 elements.

    Element i sets the share z_i that is broken off the rest of a stick of length 1. Zeros give equal shares.

    Formula:
        y_i = z_i prod_(j < i) (1 - z_j), z_i = sigmoid(x_i - log(n - i)), i from 0

    Args:
        {cache_size}
    Source: Stan Reference Manual, "Unit simplex".

    Example:
        >>> flambeau.distributions.StickBreakingTransform()(flambeau.zeros(3))
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True
    __eq__ = _same_kind
    __hash__ = object.__hash__

    @staticmethod
    def _left(x: Tensor) -> Tensor:
        """The number of parts that remain, for each element."""
        n = x.shape[-1]
        return flambeau.arange(n, 0, -1, dtype=x.dtype, device=x.device)

    def _call(self, x: Tensor) -> Tensor:
        share = _clipped_sigmoid(x - self._left(x).log())
        rest = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(rest, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        broken = y[..., :-1]
        rest = (1 - broken.cumsum(-1)).clamp(min=flambeau.finfo(y.dtype).tiny)
        return broken.log() - rest.log() + self._left(broken).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum of log y_i - log(1 + e^(x_i - log(parts left)))."""
        shifted = x - self._left(x).log()
        return (-shifted + flambeau.nn.functional.logsigmoid(shifted) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape with one element more."""
        if len(shape) < 1:
            raise ValueError(
                "StickBreakingTransform: Too few dimensions on input: expected 1 or more, got shape "
                f"{tuple(shape)}"
            )
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape with one element less."""
        if len(shape) < 1:
            raise ValueError(
                "StickBreakingTransform: Too few dimensions on input: expected 1 or more, got shape "
                f"{tuple(shape)}"
            )
        return Size((*shape[:-1], shape[-1] - 1))


@described
class CorrCholeskyTransform(Transform):
    """Map from vectors of d (d - 1) / 2 elements to Cholesky factors of d x d correlation matrices.

    Formula:
        L_ij = z_ij prod_(k < j) sqrt(1 - z_ik^2), z_ij = tanh(x_ij) below the diagonal, z_ii = 1

    Args:
        {cache_size}
    Source: Lewandowski, Kurowicka & Joe 2009, "Generating Random Correlation Matrices Based on Vines and
        Extended Onion Method"; Stan Reference Manual, "Cholesky factors of correlation matrices".

    Example:
        >>> flambeau.distributions.transforms.CorrCholeskyTransform()(flambeau.zeros(1))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        x = flambeau.tanh(x)
        eps = flambeau.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        rest = (1 - partial.square()).sqrt().cumprod(-1)
        size = partial.shape[-1]
        with_ones = partial + flambeau.eye(size, dtype=x.dtype, device=x.device)
        return with_ones * pad(rest[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        rest = 1 - (y * y).cumsum(-1)
        before = pad(rest[..., :-1], [1, 0], value=1)
        values = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(before, diag=-1).sqrt()
        # atanh; the difference of log1p's is exact near 0.
        return (values.log1p() - values.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        """Return the logarithms of the lengths left and of tanh's slopes, summed."""
        rest = 1 - (y * y).cumsum(-1)
        lengths = 0.5 * tril_matrix_to_vec(rest, diag=-2).log().sum(-1)
        slopes = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)
        return lengths + slopes

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of the matrices."""
        if len(shape) < 1:
            raise ValueError(
                "CorrCholeskyTransform: Too few dimensions on input: expected 1 or more, got shape "
                f"{tuple(shape)}"
            )
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError(f"CorrCholeskyTransform: expected a last size n (n - 1) / 2, got {count}")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of the vectors."""
        if len(shape) < 2:
            raise ValueError(
                "CorrCholeskyTransform: Too few dimensions on input: expected 2 or more, got shape "
                f"{tuple(shape)}"
            )
        if shape[-2] != shape[-1]:
            raise ValueError(
                "CorrCholeskyTransform: Input is not square: expected equal trailing sizes, got shape "
                f"{tuple(shape)}"
            )
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


@described
class LowerCholeskyTransform(Transform):
    """Map from square matrices to lower triangular matrices with a positive diagonal.

    Formula:
        y_ij = x_ij below the diagonal, y_ii = e^x_ii, 0 above the diagonal

    Args:
        {cache_size}

    Example:
        >>> flambeau.distributions.LowerCholeskyTransform()(flambeau.ones(2, 2))
        tensor([[2.7183, 0.0000],
                [1.0000, 2.7183]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky
    __eq__ = _same_kind
    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


@described
class PositiveDefiniteTransform(Transform):
    """Map from square matrices to positive definite matrices.

    Formula:
        y = L L^T, with the lower triangular L of `LowerCholeskyTransform`

    Args:
        {cache_size}

    Example:
        >>> flambeau.distributions.PositiveDefiniteTransform()(flambeau.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite
    __eq__ = _same_kind
    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(flambeau.linalg.cholesky(y))


class _Parts(Transform):
    """Transforms of the parts of a tensor along one dimension."""

    transforms: list[Transform]
    dim: int

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are bijective."""
        return all(t.bijective for t in self.transforms)

    def _parts(self, x: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def _check(self, x: Tensor) -> None:
        count = sum(getattr(self, "lengths", [1] * len(self.transforms)))
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != count:
            raise AssertionError(
                f"{type(self).__name__}: expected size {count} in dimension {self.dim}, got shape "
                f"{tuple(x.shape)}"
            )


@described
class CatTransform(_Parts):
    """Concatenation of transforms: applies one transform to each piece along a dimension.

    Args:
        tseq: the transforms.
        dim: the dimension.
        lengths: the size of each piece. None means 1 each.
        {cache_size}
    Raises: AssertionError if `tseq` contains anything but transforms, or `lengths` has another length.

    Example:
        >>> from flambeau.distributions import AffineTransform, CatTransform, ExpTransform
        >>> CatTransform([ExpTransform(), AffineTransform(1.0, 2.0)], lengths=[1, 2])(flambeau.zeros(3))
        tensor([1., 1., 1.])
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError(
                f"CatTransform: expected a sequence of Transforms, got {[type(t).__name__ for t in tseq]}"
            )
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"CatTransform: expected {len(self.transforms)} lengths, one per transform, got "
                f"{len(self.lengths)}"
            )
        self.dim = dim

    @property
    def event_dim(self) -> int:
        """The largest `event_dim` of a piece."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The size along the dimension."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another cache size."""
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Tensor) -> list[Tensor]:
        self._check(x)
        return list(x.split(self.lengths, self.dim))

    def _call(self, x: Tensor) -> Tensor:
        return flambeau.cat([t(p) for t, p in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return flambeau.cat([t.inv(p) for t, p in pairs], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the pieces' Jacobians side by side, or their sum where events lie along `dim`."""
        terms = []
        for t, a, b in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            term = t.log_abs_det_jacobian(a, b)
            terms.append(term.flatten(term.dim() - self.event_dim + t.event_dim).sum(-1)
                         if t.event_dim < self.event_dim else term)  # fmt: skip
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        return flambeau.cat(terms, dim) if dim < 0 else sum(terms[1:], terms[0])

    @property
    def domain(self) -> Any:
        """The pieces' domains."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        """The pieces' codomains."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


@described
class StackTransform(_Parts):
    """Stacked transforms: applies one transform to each slice along a dimension.

    Args:
        tseq: the transforms.
        dim: the dimension.
        {cache_size}
    Raises: AssertionError if `tseq` contains anything but transforms.

    Example:
        >>> from flambeau.distributions import AffineTransform, ExpTransform, StackTransform
        >>> StackTransform([ExpTransform(), AffineTransform(2.0, 2.0)])(flambeau.zeros(2))
        tensor([1., 2.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError(
                f"StackTransform: expected a sequence of Transforms, got {[type(t).__name__ for t in tseq]}"
            )
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another cache size."""
        return (
            self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)
        )

    def _parts(self, x: Tensor) -> list[Tensor]:
        self._check(x)
        return list(x.unbind(self.dim))

    def _call(self, x: Tensor) -> Tensor:
        return flambeau.stack([t(p) for t, p in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return flambeau.stack([t.inv(p) for t, p in pairs], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the slices' Jacobians side by side."""
        triples = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return flambeau.stack([t.log_abs_det_jacobian(a, b) for t, a, b in triples], self.dim)

    @property
    def domain(self) -> Any:
        """The slices' domains."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        """The slices' codomains."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
