"""Sets of values: what parameters may be, and what a distribution can draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau import Tensor


@dataclass(frozen=True)
class Constraint:
    """A set, by a predicate on tensors.

    Args:
        name: how messages call it.
        predicate: whether each element, or each event, is in the set.
        is_discrete: whether its members can be counted.
        event_dim: how many trailing dimensions form one member.
    """

    name: str
    predicate: Callable[[Tensor], Tensor]
    is_discrete: bool = False
    event_dim: int = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each event is in the set."""
        return self.predicate(value)

    def __repr__(self) -> str:
        return self.name


def greater_than(lower_bound: Any) -> Constraint:
    """Numbers above a bound."""
    return Constraint(f"GreaterThan(lower_bound={lower_bound})", lambda x: x > lower_bound)


def greater_than_eq(lower_bound: Any) -> Constraint:
    """Numbers from a bound on."""
    return Constraint(f"GreaterThanEq(lower_bound={lower_bound})", lambda x: x >= lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Numbers below a bound."""
    return Constraint(f"LessThan(upper_bound={upper_bound})", lambda x: x < upper_bound)


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers between two bounds, which belong to it."""
    name = f"Interval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, lambda x: (x >= lower_bound) & (x <= upper_bound))


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Whole numbers between two bounds, which belong to it."""
    name = f"IntegerInterval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, lambda x: _whole(x) & (x >= lower_bound) & (x <= upper_bound), True)


def independent(base: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """Events over further dimensions, all elements of which are in the set."""
    count = reinterpreted_batch_ndims

    def predicate(x: Tensor) -> Tensor:
        inside = base.check(x)
        return inside.flatten(inside.dim() - count).all(-1) if count else inside

    return Constraint(
        f"IndependentConstraint({base}, {count})", predicate, base.is_discrete, base.event_dim + count
    )


def _whole(x: Tensor) -> Tensor:
    return x % 1 == 0


def _one_hot(x: Tensor) -> Tensor:
    return ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1)


def _simplex(x: Tensor) -> Tensor:
    return (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6)


def _lower_cholesky(x: Tensor) -> Tensor:
    return (x.tril() == x).flatten(-2).all(-1) & (x.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def _positive_definite(x: Tensor) -> Tensor:
    symmetric = flambeau.isclose(x, x.mT, atol=1e-6).flatten(-2).all(-1)
    return symmetric & flambeau.linalg.cholesky_ex(x)[1].eq(0)


real = Constraint("Real()", lambda x: x == x)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
boolean = Constraint("Boolean()", lambda x: (x == 0) | (x == 1), True)
nonnegative_integer = Constraint("IntegerGreaterThan(lower_bound=0)", lambda x: _whole(x) & (x >= 0), True)
positive_integer = Constraint("IntegerGreaterThan(lower_bound=1)", lambda x: _whole(x) & (x >= 1), True)
real_vector = independent(real, 1)
one_hot = Constraint("OneHot()", _one_hot, True, 1)
simplex = Constraint("Simplex()", _simplex, False, 1)
lower_cholesky = Constraint("LowerCholesky()", _lower_cholesky, False, 2)
positive_definite = Constraint("PositiveDefinite()", _positive_definite, False, 2)
