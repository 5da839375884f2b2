"""Sets of values: what parameters may be, and what a distribution can draw.

`check` says for each event whether it is in the set. Constraints without arguments stand here as
objects (`real`, `simplex`), the others as classes (`interval(0, 1)`).

>>> from flambeau.distributions import constraints
>>> constraints.positive.check(flambeau.tensor([-1.0, 2.0]))
tensor([False,  True])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions._constraint import (
    Constraint,
    MixtureSameFamilyConstraint,
    _Dependent,
    _DependentProperty,
    _IndependentConstraint,
    is_dependent,
)

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
    "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
    "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack",
    "symmetric", "unit_interval",
]  # fmt: skip


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        """Whether each element is 0 or 1."""
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors of zeros and a single 1."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        """Whether each vector has one 1."""
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Bounded(Constraint):
    """A constraint with bounds, which its repr shows."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{k}={v}" for k, v in vars(self).items())
        return f"{type(self).__name__.removeprefix('_')}({bounds})"


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        super().__init__()


class _From(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound
        super().__init__()


class _UpTo(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound
        super().__init__()


class _IntegerInterval(_Between):
    """Integers between two bounds.

    Args:
        lower_bound: the lower bound, included.
        upper_bound: the upper bound, included.

    Example:
        >>> from flambeau.distributions import constraints
        >>> constraints.integer_interval(0, 5).check(flambeau.tensor([5.0, 2.5]))
        tensor([ True, False])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        """Whether each element is in the set."""
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_UpTo):
    """Integers up to a bound, inclusive."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        """Whether each element is in the set."""
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_From):
    """Integers from a bound on, inclusive."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        """Whether each element is in the set."""
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    """All numbers except NaN."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each element is a number."""
        return value == value


class _GreaterThan(_From):
    """Numbers above a bound.

    Args:
        lower_bound: the bound, excluded.

    Example:
        >>> from flambeau.distributions import constraints
        >>> constraints.greater_than(0).check(flambeau.tensor([0.0, 1.0]))
        tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        """Whether each element is in the set."""
        return self.lower_bound < value


class _GreaterThanEq(_From):
    """Numbers that are at least a bound.

    Args:
        lower_bound: the bound, included.

    Example:
        >>> from flambeau.distributions import constraints
        >>> constraints.greater_than_eq(0).check(flambeau.tensor([0.0, -1.0]))
        tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        """Whether each element is in the set."""
        return self.lower_bound <= value


class _LessThan(_UpTo):
    """Numbers below a bound.

    Args:
        upper_bound: the bound, excluded.

    Example:
        >>> from flambeau.distributions import constraints
        >>> constraints.less_than(0).check(flambeau.tensor([0.0, -1.0]))
        tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        """Whether each element is in the set."""
        return value < self.upper_bound


class _Interval(_Between):
    """Closed interval.

    Args:
        lower_bound: the lower bound, included.
        upper_bound: the upper bound, included.

    Example:
        >>> from flambeau.distributions import constraints
        >>> constraints.interval(0, 1).check(flambeau.tensor([1.0, 1.5]))
        tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        """Whether each element is in the set."""
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Half-open interval.

    Args:
        lower_bound: the lower bound, included.
        upper_bound: the upper bound, excluded.

    Example:
        >>> from flambeau.distributions import constraints
        >>> constraints.half_open_interval(0, 1).check(flambeau.tensor([0.0, 1.0]))
        tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        """Whether each element is in the set."""
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    """Vectors of nonnegative numbers that add up to 1, within 1e-6."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        """Whether each vector is in the set."""
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of nonnegative integers whose sum is at most a bound.

    Args:
        upper_bound: the bound, included.

    Example:
        >>> from flambeau.distributions import constraints
        >>> constraints.multinomial(3).check(flambeau.tensor([[1.0, 2.0], [3.0, 1.0]]))
        tensor([ True, False])
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        """Whether each vector is in the set."""
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _Matrix(Constraint):
    event_dim = 2


class _LowerTriangular(_Matrix):
    """Matrices that are 0 above the diagonal."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each matrix is in the set."""
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each matrix is in the set."""
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Lower triangular matrices with a positive diagonal and rows of length 1."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each matrix is in the set."""
        tolerance = flambeau.finfo(value.dtype).eps * value.size(-1) * 10
        length = value.detach().square().sum(-1).sqrt()
        return super().check(value) & ((length - 1).abs() < tolerance).all(-1)


class _Square(_Matrix):
    """Matrices of as many rows as columns."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each matrix is in the set."""
        is_square = value.shape[-2] == value.shape[-1]
        return flambeau.full(value.shape[:-2], is_square, dtype=flambeau.bool, device=value.device)


class _Symmetric(_Square):
    """Matrices that equal their transpose, within 1e-6."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each matrix is in the set."""
        square = super().check(value)
        if not square.all():
            return square
        return flambeau.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)

    def _symmetric_part(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return which matrices are symmetric, and the matrices with zeros for those that are not."""
        symmetric = _Symmetric.check(self, value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric, value[..., :0, :0]
        return symmetric, value.where(symmetric[..., None, None], 0.0)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without a negative eigenvalue."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each matrix is in the set."""
        symmetric, whole = self._symmetric_part(value)
        return symmetric & flambeau.linalg.eigvalsh(whole).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices of positive eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each matrix is in the set."""
        symmetric, whole = self._symmetric_part(value)
        return symmetric & flambeau.linalg.cholesky_ex(whole)[1].eq(0)


class _Several(Constraint):
    """Constraints on the parts of a tensor."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError(
                "constraints.cat, constraints.stack: expected a sequence of Constraints, got "
                f"{[type(c).__name__ for c in cseq]}"
            )
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:
        """Whether the constraint of any part is discrete."""
        return any(c.is_discrete for c in self.cseq)


class _Cat(_Several):
    """Concatenation of constraints: one constraint for each piece along a dimension.

    Args:
        cseq: the constraints.
        dim: the dimension.
        lengths: the size of each piece. None means 1 each.
    Raises: AssertionError if `lengths` has another length than `cseq`, or `cseq` contains anything but
        constraints.

    Example:
        >>> from flambeau.distributions import constraints
        >>> pair = constraints.cat([constraints.positive, constraints.real])
        >>> pair.check(flambeau.tensor([-1.0, -1.0]))
        tensor([False,  True])
    """

    def __init__(self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(
                f"constraints.cat: expected {len(self.cseq)} lengths, one per constraint, got "
                f"{len(self.lengths)}"
            )

    @property
    def event_dim(self) -> int:
        """The largest `event_dim` of a part."""
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        """Whether the pieces are in their sets."""
        pieces, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            pieces.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return flambeau.cat(pieces, self.dim)


class _Stack(_Several):
    """Stacked constraints: one constraint for each slice along a dimension.

    Args:
        cseq: the constraints.
        dim: the dimension.
    Raises: AssertionError if `cseq` contains anything but constraints.

    Example:
        >>> from flambeau.distributions import constraints
        >>> pair = constraints.stack([constraints.positive, constraints.real])
        >>> pair.check(flambeau.tensor([-1.0, -1.0]))
        tensor([False,  True])
    """

    @property
    def event_dim(self) -> int:
        """The most that a slice's has, and `dim` where it lies within events."""
        most = max(c.event_dim for c in self.cseq)
        return most + 1 if self.dim + most < 0 else most

    def check(self, value: Tensor) -> Tensor:
        """Whether the slices are in their sets."""
        checked = [c.check(value.select(self.dim, i)) for i, c in enumerate(self.cseq)]
        return flambeau.stack(checked, self.dim)


for _base in (
    Constraint,
    MixtureSameFamilyConstraint,
    _Dependent,
    _DependentProperty,
    _IndependentConstraint,
):
    _base.__module__ = __name__
is_dependent.__module__ = __name__

dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
integer_interval = _IntegerInterval
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
real = _Real()
real_vector = independent(real, 1)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
interval = _Interval
half_open_interval = _HalfOpenInterval
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = _Simplex()
multinomial = _Multinomial
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
