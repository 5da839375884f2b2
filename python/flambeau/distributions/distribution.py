"""What all distributions have in common."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import flambeau
from flambeau import Tensor
from flambeau._size import Size
from flambeau.distributions.constraints import Constraint

Self = TypeVar("Self", bound="Distribution")


def as_tensors(*values: Any) -> list[Tensor]:
    """Return numbers and tensors as tensors of one shape."""
    like = next((v for v in values if isinstance(v, Tensor)), None)
    options: dict[str, Any] = {} if like is None else {"dtype": like.dtype, "device": like.device}
    if not all(isinstance(v, Tensor | int | float) for v in values):
        raise ValueError("Input arguments must all be numbers or tensors")
    given = [v if isinstance(v, Tensor) else flambeau.tensor(float(v), **options) for v in values]
    return list(flambeau.broadcast_tensors(*given))


def lazy(function: Any) -> Any:
    """Make a property that is computed once, with its graph even where gradients are switched off."""
    return cached_property(flambeau.enable_grad()(function))


class Distribution:
    """A batch of distributions over events of one shape.

    Subclasses name their parameters, with what they may be, in `arg_constraints`; those that an object was
    made with are its attributes. Samples have the shape ``sample_shape + batch_shape + event_shape``.

    Args:
        batch_shape: how many distributions.
        event_shape: the shape of one event.
        validate_args: whether parameters and values are checked.
    Raises: ValueError for parameters or values outside of their sets.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    support: Any = None
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
            for name, constraint in self.arg_constraints.items():
                if name in self.__dict__:
                    self._check_parameter(name, constraint)

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Choose whether distributions are checked that do not say."""
        if value not in (True, False):
            raise ValueError("set_default_validate_args: expected a bool")
        Distribution._validate_args = value

    def _check_parameter(self, name: str, constraint: Constraint) -> None:
        value = self.__dict__[name]
        if not constraint.check(value).all():
            raise ValueError(
                f"Expected parameter {name} of shape {tuple(value.shape)} of {self!r} to satisfy the "
                f"constraint {constraint}, got:\n{value}"
            )

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError(f"log_prob: expected the value to be a Tensor, got {type(value).__name__}")
        wanted = self._batch_shape + self._event_shape
        events = len(self._event_shape)
        if tuple(value.shape[value.dim() - events :]) != tuple(self._event_shape):
            raise ValueError(f"expected events of shape {tuple(self._event_shape)}, got {tuple(value.shape)}")
        for have, want in zip(reversed(value.shape), reversed(wanted), strict=False):
            if have != 1 and want != 1 and have != want:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {tuple(value.shape)}, {wanted}"
                )
        if self.support is not None and not self.support.check(value).all():
            raise ValueError(
                f"Expected value argument of shape {tuple(value.shape)} to be within the support "
                f"({self.support}) of {self!r}, got:\n{value}"
            )

    @property
    def batch_shape(self) -> Size:
        """How many distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError(f"{type(self).__name__} has no mode")

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def expand(self: Self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """Return the distribution for a larger batch; parameters are expanded without being copied."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        for name, constraint in self.arg_constraints.items():
            if isinstance(value := self.__dict__.get(name), Tensor):
                event = value.shape[value.dim() - constraint.event_dim :]
                setattr(new, name, value.expand(tuple(batch_shape) + tuple(event)))
        new._batch_shape = Size(batch_shape)
        return new

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw events, without gradients."""
        with flambeau.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw events as differentiable functions of the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample")

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density, or of the probability."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of lower values or the same."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of `cdf`."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values, along a new first dimension."""
        raise NotImplementedError(f"{type(self).__name__} has no enumerate_support")

    def entropy(self) -> Tensor:
        """Return the expected negative `log_prob`, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Tensor:
        """Return e to the entropy."""
        return self.entropy().exp()

    def __repr__(self) -> str:
        shown = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        parts = (f"{n}: {v if v.numel() == 1 else v.size()}" for n, v in shown.items())
        return f"{type(self).__name__}({', '.join(parts)})"
