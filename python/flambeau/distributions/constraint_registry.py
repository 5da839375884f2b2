"""From a constraint to a transform of unconstrained numbers into it.

`biject_to` gives bijections, with Jacobians; `transform_to` gives maps that suit optimisation, whose
inverse may be one of several. Both raise NotImplementedError for constraints without a rule;
``biject_to.register`` adds one.

>>> from flambeau.distributions import constraints
>>> transform_to(constraints.simplex)(flambeau.zeros(2))
tensor([0.5000, 0.5000])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau  # noqa: F401  (the example's)
from flambeau.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], transforms.Transform]


class ConstraintRegistry:
    """Table of rules from constraints to transforms; a call returns the transform for a constraint.

    The argument of a transform is an unconstrained tensor, its value satisfies the constraint. ``biject_to``
    holds bijections. ``transform_to`` holds maps that suit optimization and need not be injective. A call
    raises NotImplementedError for a constraint without a rule; ``register`` adds one.

    Example:
        >>> from flambeau.distributions import biject_to, constraints, transform_to
        >>> transform_to(constraints.simplex)(flambeau.zeros(2))
        tensor([0.5000, 0.5000])
        >>> biject_to(constraints.simplex)(flambeau.zeros(2))
        tensor([0.3333, 0.3333, 0.3333])
    """

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Add a rule for a class of constraints or that of an object; without `factory`, a decorator.

        Raises: TypeError for anything but constraints.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not (isinstance(constraint, type) and issubclass(constraint, constraints.Constraint)):
            raise TypeError(
                "ConstraintRegistry.register: Expected constraint to be a Constraint or a class of them, "
                f"got {constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Any) -> transforms.Transform:
        """Return the transform into a constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"transform_to: Cannot transform {type(constraint).__name__} constraints; register a "
                "transform for them"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Factory], Factory]:
    def decorate(factory: Factory) -> Factory:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return decorate


@_both(constraints.real)
def _to_real(constraint: Any) -> transforms.Transform:
    return transforms.identity_transform


@_both(constraints.positive, constraints.greater_than_eq)
def _to_lower_bounded(constraint: Any) -> transforms.Transform:
    affine = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), affine])


@_both(constraints.less_than)
def _to_upper_bounded(constraint: Any) -> transforms.Transform:
    affine = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), affine])


def _is(bound: Any, number: int) -> bool:
    return isinstance(bound, int | float) and bound == number


@_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint: Any) -> transforms.Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if _is(low, 0) and _is(high, 1):
        return transforms.SigmoidTransform()
    affine = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), affine])


biject_to.register(constraints.simplex, lambda _: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda _: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda _: transforms.LowerCholeskyTransform())
for _kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_kind, lambda _: transforms.PositiveDefiniteTransform())
_both(constraints.corr_cholesky)(lambda _: transforms.CorrCholeskyTransform())


def _compose(registry: ConstraintRegistry) -> None:
    """Add rules for constraints that are made of others."""

    def independent(c: Any) -> transforms.Transform:
        return transforms.IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims)

    def cat(c: Any) -> transforms.Transform:
        return transforms.CatTransform([registry(part) for part in c.cseq], c.dim, c.lengths)

    def stack(c: Any) -> transforms.Transform:
        return transforms.StackTransform([registry(part) for part in c.cseq], c.dim)

    registry.register(constraints.independent, independent)
    registry.register(constraints.cat, cat)
    registry.register(constraints.stack, stack)


_compose(biject_to)
_compose(transform_to)
