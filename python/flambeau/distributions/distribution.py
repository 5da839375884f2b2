"""What all distributions have in common."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

import flambeau
from flambeau import Tensor
from flambeau._types.size import Size
from flambeau.distributions import constraints
from flambeau.distributions.utils import lazy_property

Self = TypeVar("Self", bound="Distribution")

__all__ = ["Distribution"]


class Distribution:
    """Base class of distributions: a batch of distributions over events of one shape.

    A subclass names its parameters and their constraints in ``arg_constraints``, and keeps them as
    attributes. Samples have the shape ``sample_shape + batch_shape + event_shape``.

    Args:
        batch_shape: the shape of the batch.
        event_shape: the shape of one event.
        validate_args: whether parameters and values are checked. None means the default that
            `set_default_validate_args` sets: True, except under ``python -O``.
    Raises: ValueError for parameters or values that do not satisfy their constraints.

    Example:
        >>> p = flambeau.distributions.Normal(flambeau.zeros(2), 1.0)
        >>> p.batch_shape, p.event_shape, p.sample((3,)).shape
        (flambeau.Size([2]), flambeau.Size([]), flambeau.Size([3, 2]))
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set the default of `validate_args`.

        It also decides whether existing distributions that were made without the argument check values.

        Args:
            value: whether parameters and values are checked.
        Raises: ValueError for anything except a bool.
        Returns: None.
        """
        if value not in (True, False):
            raise ValueError(f"Distribution.set_default_validate_args: expected a bool, got {value!r}")
        Distribution._validate_args = value

    def _check_parameters(self) -> None:
        try:
            sets = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`: its parameters are not checked",
                stacklevel=4,
            )
            return
        for name, constraint in sets.items():
            derived = name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)
            if derived or constraints.is_dependent(constraint):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"{self!r}: expected {name} to satisfy the constraint {constraint!r}, got invalid values "
                    f"in a tensor of shape {tuple(value.shape)}:\n{value}"
                )

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{type(self).__name__}: the value must be a Tensor: expected a Tensor, got "
                f"{type(value).__name__}"
            )
        wanted = self._batch_shape + self._event_shape
        event = tuple(value.shape[value.dim() - len(self._event_shape) :])
        if event != tuple(self._event_shape):
            raise ValueError(
                f"{type(self).__name__}: expected events of shape {tuple(self._event_shape)}, got "
                f"{tuple(value.shape)}"
            )
        for have, want in zip(reversed(value.shape), reversed(wanted), strict=False):
            if have != 1 and want != 1 and have != want:
                raise ValueError(
                    f"{type(self).__name__}: expected a value that broadcasts with {tuple(wanted)}, the "
                    f"batch and event shape, got shape {tuple(value.shape)}"
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `support`: values are not checked", stacklevel=3)
            return
        if not support.check(value).all():
            raise ValueError(
                f"{self!r}: expected the value to be within the support {support!r}, got invalid values "
                f"in a tensor of shape {tuple(value.shape)}:\n{value}"
            )

    def _checked(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _lacks(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The constraint of each parameter."""
        raise self._lacks("arg_constraints")

    @property
    def support(self) -> Any:
        """The set of events."""
        raise self._lacks("support")

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise self._lacks("mean")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise self._lacks("mode")

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        raise self._lacks("variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """Return `_instance`, else an empty object: subclasses with another __init__ expand by themselves."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"expand: {type(self).__name__} replaces the __init__ of {cls.__name__}, so it must define "
                "its own expand()"
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _family(self) -> type:
        """The class of this package that the object's class is or derives from."""
        own = __name__.rpartition(".")[0]
        return next(c for c in type(self).__mro__ if c.__module__.startswith(own))

    # Attributes that expansion leaves as they are.
    _kept: tuple[str, ...] = ()

    def expand(self: Self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """Return the distribution for a larger batch; parameters are expanded without being copied.

        Args:
            batch_shape: the shape of the larger batch.
            _instance: an object of a subclass to be filled, for subclasses that call this.
        Returns: a distribution of the same class.
        """
        new = self._get_checked_instance(self._family(), _instance)
        batch_shape = Size(batch_shape)
        for name, constraint in self.arg_constraints.items():
            if isinstance(value := self.__dict__.get(name), Tensor):
                event = value.shape[value.dim() - constraint.event_dim :]
                new.__dict__[name] = value.expand(tuple(batch_shape) + tuple(event))
        new.__dict__.update({name: self.__dict__[name] for name in self._kept})
        return self._settle(new, batch_shape)

    def _settle(self, new: Any, batch_shape: Sequence[int]) -> Any:
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw events, without gradients.

        Args:
            sample_shape: how many events to draw for each distribution, as a shape.
        Raises: NotImplementedError if the distribution cannot be sampled.
        Returns: a tensor of shape ``sample_shape + batch_shape + event_shape``.
        """
        with flambeau.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw events as differentiable functions of the parameters.

        Args:
            sample_shape: how many events to draw for each distribution, as a shape.
        Raises: NotImplementedError if the distribution has no such samples (``has_rsample`` is False).
        Returns: a tensor of shape ``sample_shape + batch_shape + event_shape``.
        """
        raise self._lacks("rsample")

    def sample_n(self, n: int) -> Tensor:
        """Draw n events for each distribution; deprecated in favour of ``sample((n,))``.

        Args:
            n: the number of events.
        Returns: a tensor of shape ``(n,) + batch_shape + event_shape``.
        """
        warnings.warn("sample_n(n) is deprecated: write sample((n,))", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density; for discrete distributions, of the probability.

        Args:
            value: events, whose shape broadcasts with ``batch_shape + event_shape``.
        Raises: ValueError for a value of a wrong shape or outside of the support if values are checked,
            NotImplementedError if the distribution has no density.
        Returns: a tensor with one number for each event.
        """
        raise self._lacks("log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function: the probability of values up to `value`.

        Args:
            value: events, whose shape broadcasts with ``batch_shape + event_shape``.
        Raises: ValueError for a value of a wrong shape or outside of the support if values are checked,
            NotImplementedError if the distribution does not define it.
        Returns: a tensor of probabilities.
        """
        raise self._lacks("cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of `cdf`.

        Args:
            value: probabilities, from 0 to 1.
        Raises: NotImplementedError if the distribution has no inverse.
        Returns: a tensor of events.
        """
        raise self._lacks("icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution, along a new first dimension.

        Args:
            expand: whether to expand the values to the batch shape. Otherwise the dimensions of the
                batch have size 1.
        Raises: NotImplementedError if the distribution has no finite list of values.
        Returns: a tensor of shape ``(values,) + batch_shape + event_shape``.
        """
        raise self._lacks("enumerate_support")

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Return values along dimension 0, repeated for the batch if `expand`, else with size 1 there."""
        events = tuple(self._event_shape)
        shaped = values.reshape((-1, *[1] * len(self._batch_shape), *events))
        return shaped.expand((-1, *self._batch_shape, *events)) if expand else shaped

    def entropy(self) -> Tensor:
        """Return the expected negative `log_prob`, in nats.

        Raises: NotImplementedError if the distribution has no closed form.
        Returns: a tensor of shape ``batch_shape``.
        """
        raise self._lacks("entropy")

    def perplexity(self) -> Tensor:
        """Return e to the entropy.

        Raises: NotImplementedError if the distribution has no entropy.
        Returns: a tensor of shape ``batch_shape``.
        """
        return self.entropy().exp()

    def __repr__(self) -> str:
        shown = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        parts = (f"{n}: {v if v.numel() == 1 else v.size()}" for n, v in shown.items())
        return f"{type(self).__name__}({', '.join(parts)})"
