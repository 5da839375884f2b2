"""The base class of transforms, inverses, and compositions."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions._arguments import described
from flambeau.distributions.utils import _sum_rightmost


@described
class Transform:
    """Base class of transforms: differentiable maps with a computable Jacobian determinant.

    A subclass defines ``domain``, ``codomain``, ``bijective``, ``_call``, ``_inverse`` and
    ``log_abs_det_jacobian``, and ``forward_shape`` and ``inverse_shape`` if shapes change. ``transform(x)``
    computes the value, and ``transform.inv`` is the inverse transform.

    Args:
        {cache_size}
    Raises: ValueError for another `cache_size`.

    Example:
        >>> t = flambeau.distributions.ExpTransform()
        >>> t.inv(t(flambeau.tensor([2.0])))
        tensor([2.])
    """

    bijective = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}: expected 0 or 1 as cache_size, got {cache_size}")
        self._cache_size = cache_size
        self._inv: weakref.ref[Transform] | None = None
        self._cached_x_y: tuple[Any, Any] = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """The number of event dimensions, if it is the same for domain and codomain."""
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ValueError(
            f"event_dim: expected one value, got {self.domain.event_dim} of the domain and "
            f"{self.codomain.event_dim} of the codomain; read either of these"
        )

    @property
    def inv(self) -> Transform:
        """The inverse transform. Its `inv` is this transform."""
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """1 for an increasing map of numbers, -1 for a decreasing one."""
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another cache size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        """Return y for x."""
        old_x, old_y = self._cached_x_y
        return old_y if x is old_x else self._keep(x, self._call(x))[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        old_x, old_y = self._cached_x_y
        return old_x if y is old_y else self._keep(self._inverse(y), y)[0]

    def _keep(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pair; a transform with a cache remembers it, so that its inverse is exact."""
        if self._cache_size:
            self._cached_x_y = x, y
        return x, y

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} defines no _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} defines no _inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |det dy/dx| for each event."""
        raise NotImplementedError(f"{type(self).__name__} defines no log_abs_det_jacobian")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of y for that of x."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of x for that of y."""
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform, whose cache it uses."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    @property
    def _base(self) -> Transform:
        return self._inv  # type: ignore[return-value]

    @property
    def domain(self) -> Any:
        """The codomain of the base."""
        return self._base.codomain

    @property
    def codomain(self) -> Any:
        """The domain of the base."""
        return self._base.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether the base is bijective."""
        return self._base.bijective

    @property
    def sign(self) -> Any:
        """The sign of the base."""
        return self._base.sign

    @property
    def inv(self) -> Transform:
        """The base."""
        return self._base

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the inverse of the base with another cache size."""
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._base == other._base

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._base!r})"

    def __call__(self, x: Tensor) -> Tensor:
        """Return the base's x for its y."""
        return self._base._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._base(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the negative of the base's."""
        return -self._base.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the base's inverse shape."""
        return self._base.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """Return the base's forward shape."""
        return self._base.forward_shape(shape)


@described
class ComposeTransform(Transform):
    """Composition of transforms.

    Args:
        parts: the transforms, applied from first to last.
        {cache_size}
    Raises: ValueError for another `cache_size`.

    Example:
        >>> from flambeau.distributions import AffineTransform, ComposeTransform, ExpTransform
        >>> ComposeTransform([AffineTransform(0.0, 2.0), ExpTransform()])(flambeau.tensor([0.5]))
        tensor([2.7183])
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @property
    def domain(self) -> Any:
        """The domain of the first part, over as many event dimensions as the parts need."""
        if not self.parts:
            return constraints.real
        domain, needed = self.parts[0].domain, self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            needed = max(needed + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _widened(domain, needed)

    @property
    def codomain(self) -> Any:
        """The codomain of the last part, over as many event dimensions as the parts need."""
        if not self.parts:
            return constraints.real
        codomain, needed = self.parts[-1].codomain, self.parts[0].domain.event_dim
        for part in self.parts:
            needed = max(needed + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _widened(codomain, needed)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are bijective."""
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        """The product of the signs of the parts."""
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        """The inverses of the parts in reverse order."""
        inverse: Any = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the composition with another cache size."""
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        """Return y for x."""
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum over the parts, each evaluated at its own input."""
        if not self.parts:
            return flambeau.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        event_dim, terms = self.domain.event_dim, []
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            jacobian = part.log_abs_det_jacobian(before, after)
            terms.append(_sum_rightmost(jacobian, event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return sum(terms[1:], terms[0])

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of y for that of x."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of x for that of y."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {parts}\n)"


def _widened(constraint: Any, event_dim: int) -> Any:
    """The constraint over events of `event_dim` dimensions."""
    missing = event_dim - constraint.event_dim
    return constraints.independent(constraint, missing) if missing > 0 else constraint


@described
class IndependentTransform(Transform):
    """Map that counts trailing dimensions of another one as event dimensions.

    The Jacobian determinant is multiplied over them.

    Args:
        base_transform: the transform.
        reinterpreted_batch_ndims: the number of further trailing dimensions that belong to an event.
        {cache_size}
    Raises: ValueError for another `cache_size`.

    Example:
        >>> from flambeau.distributions import ExpTransform, IndependentTransform
        >>> x = flambeau.tensor([1.0, 2.0])
        >>> t = IndependentTransform(ExpTransform(), 1)
        >>> t.log_abs_det_jacobian(x, t(x))
        tensor(3.)
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another cache size."""
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @property
    def domain(self) -> Any:
        """The set of the base, over the further event dimensions."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        """The set of the base, over the further event dimensions."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether the base is bijective."""
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        """The sign of the base."""
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError(
                f"IndependentTransform: Too few dimensions on input: expected {self.domain.event_dim} or "
                f"more, got shape {tuple(x.shape)}"
            )
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError(
                f"IndependentTransform: Too few dimensions on input: expected {self.codomain.event_dim} "
                f"or more, got shape {tuple(y.shape)}"
            )
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the base's value, summed over the further event dimensions."""
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the base's result."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """Return the base's result."""
        return self.base_transform.inverse_shape(shape)


identity_transform = ComposeTransform([])
