"""The base of constraints, and those that are made of other ones or of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import Tensor


class Constraint:
    """Base class of constraints: sets of values.

    A subclass defines ``check(value)``, which returns whether each event satisfies the constraint.

    Attributes:
        is_discrete: whether the set is countable.
        event_dim: the number of trailing dimensions of one event.

    Example:
        >>> flambeau.distributions.constraints.positive.check(flambeau.tensor([-1.0, 2.0]))
        tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each event is in the set."""
        raise NotImplementedError(f"{type(self).__name__} defines no check")

    def __repr__(self) -> str:
        return f"{type(self).__name__.removeprefix('_')}()"


class _Dependent(Constraint):
    """Constraint that depends on other values; call it to state what is known of it beforehand.

    Args:
        is_discrete: whether the set is countable, if known.
        event_dim: the number of trailing dimensions of one event, if known.

    Example:
        >>> from flambeau.distributions import constraints
        >>> constraints.is_dependent(constraints.dependent)
        True
    """

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        """Whether its members can be counted, if that is known."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(
                "dependent.is_discrete: .is_discrete cannot be determined statically; give it to dependent()"
            )
        return bool(self._is_discrete)

    @property
    def event_dim(self) -> int:
        """How many dimensions an event has, if that is known."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(
                "dependent.event_dim: .event_dim cannot be determined statically; give it to dependent()"
            )
        return int(self._event_dim)

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """Return a copy with more known attributes."""
        if is_discrete is NotImplemented:
            is_discrete = self._is_discrete
        return _Dependent(
            is_discrete=is_discrete, event_dim=self._event_dim if event_dim is NotImplemented else event_dim
        )

    def check(self, value: Tensor) -> Tensor:
        """Raise ValueError: the other values are not known."""
        raise ValueError(
            "constraints.dependent: expected a constraint whose other parameters are known, got "
            "check() of a dependent constraint"
        )


def is_dependent(constraint: Any) -> bool:
    """Return whether a constraint depends on other values.

    Args:
        constraint: the constraint.
    Returns: True or False.

    Example:
        >>> from flambeau.distributions import constraints
        >>> constraints.is_dependent(constraints.positive)
        False
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """Property that computes a constraint from an object, and is a dependent constraint on the class.

    Args:
        fn: the function from the object to the constraint. None makes a decorator.
        is_discrete: whether the set is countable, if known.
        event_dim: the number of trailing dimensions of one event, if known.

    Example:
        >>> from flambeau.distributions import Uniform, constraints
        >>> constraints.is_dependent(Uniform.support), Uniform(0.0, 2.0).support.upper_bound
        (True, tensor(2.))
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:  # type: ignore[override]
        """Decorate the function."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """Constraint that counts trailing dimensions of another one as event dimensions.

    An event satisfies it if all its elements satisfy the base constraint.

    Args:
        base_constraint: the constraint.
        reinterpreted_batch_ndims: the number of further trailing dimensions of an event, 0 or more.
    Raises: AssertionError if `base_constraint` is not a `Constraint` or the number is not an int.

    Example:
        >>> from flambeau.distributions import constraints
        >>> constraints.independent(constraints.positive, 1).check(flambeau.tensor([[1.0, 2.0], [0.0, 1.0]]))
        tensor([ True, False])
    """

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(
                f"constraints.independent: expected a Constraint, got {type(base_constraint).__name__}"
            )
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError(
                f"constraints.independent: expected a count of dimensions, got {reinterpreted_batch_ndims!r}"
            )
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        """The attribute of the base constraint."""
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        """The event dimensions of the base plus the further dimensions."""
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        """Whether all elements of each event are in the base set."""
        inside, count = self.base_constraint.check(value), self.reinterpreted_batch_ndims
        if inside.dim() < count:
            raise ValueError(
                f"{self!r}: expected a value of at least {self.event_dim} dimensions, got {value.dim()}"
            )
        return inside.reshape((*inside.shape[: inside.dim() - count], -1)).all(-1) if count else inside

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Constraint on samples of a mixture: every component's support contains them.

    Args:
        base_constraint: the constraint of the component distribution, whose last batch dimension indexes the
            components.
    Raises: AssertionError if `base_constraint` is not a `Constraint`.

    Example:
        >>> from flambeau.distributions import constraints
        >>> mixture = constraints.MixtureSameFamilyConstraint(constraints.positive)
        >>> mixture.check(flambeau.tensor([-1.0, 2.0]))
        tensor([False,  True])
    """

    def __init__(self, base_constraint: Any) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(
                f"MixtureSameFamilyConstraint: expected a Constraint, got {type(base_constraint).__name__}"
            )
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        """The attribute of the base constraint."""
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        """The attribute of the base constraint."""
        return int(self.base_constraint.event_dim)

    def check(self, value: Tensor) -> Tensor:
        """Whether each event is in all components' sets."""
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        # A base constraint over whole events leaves the component's dimension last.
        return inside.all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"
