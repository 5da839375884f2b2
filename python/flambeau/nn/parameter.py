"""Tensors that a module owns: learned parameters and buffers."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau._lazy import attributes


class Parameter(Tensor):
    """A tensor that a `Module` lists among its parameters when it is assigned as an attribute.

    Args:
        data: the values; shared, not copied. An empty tensor by default.
        requires_grad: whether gradients are collected.
    """

    # What is computed from parameters is no parameter.
    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = flambeau.empty(0)
        made = data.detach().as_subclass(cls)
        made.requires_grad_(requires_grad)
        return made

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            copy = type(self)(self.detach().clone(), self.requires_grad)
            if self.grad is not None:
                copy.grad = self.grad.detach().clone()
            memo[id(self)] = copy
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild_parameter, (self.detach().as_subclass(Tensor), self.requires_grad)


def _rebuild_parameter(data: Tensor, requires_grad: bool) -> Parameter:
    return Parameter(data, requires_grad)


_UNKNOWN = (
    "an uninitialized parameter has no shape and no values: call the lazy module once, "
    "or load a state, before anything else is done with it"
)


class UninitializedParameter(Parameter):
    """A parameter whose shape is not known yet; `materialize` makes it an ordinary one.

    Args:
        requires_grad: whether gradients are collected.
        device, dtype: of the values to come.
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return super().__new__(cls, flambeau.empty(0, device=device, dtype=dtype), requires_grad)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a parameter of this shape, not initialised."""
        place: dict[str, Any] = {"device": device or self.device, "dtype": dtype or self.dtype}
        self.materialize_as(flambeau.empty(shape, **place))

    def materialize_as(self, values: Tensor) -> None:
        """Become a parameter with these values."""
        self.data = values.detach()
        self.__class__ = self.cls_to_become  # type: ignore[assignment]

    @property
    def shape(self) -> Any:
        """Unknown. Raises: RuntimeError."""
        raise RuntimeError(f"shape: {_UNKNOWN}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype)


class UninitializedBuffer(UninitializedParameter):
    """A buffer whose shape is not known yet."""

    cls_to_become = Tensor  # type: ignore[assignment]

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        out = super().__new__(cls, requires_grad, device, dtype)
        out.persistent, out._is_buffer = persistent, True
        return out


def is_lazy(value: Any) -> bool:
    """Whether a parameter or buffer is uninitialised."""
    return isinstance(value, UninitializedParameter)


class _BufferType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(metaclass=_BufferType):
    """A tensor that a `Module` registers as a buffer when it is assigned as an attribute.

    Args:
        data: the values; shared, not copied. An empty tensor by default.
        persistent: whether it is part of the module's state.
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        source = flambeau.empty(0) if data is None else data
        out = source.detach().requires_grad_(source.requires_grad)
        out.persistent, out._is_buffer = persistent, True  # type: ignore[attr-defined]
        return out


__getattr__, __dir__ = attributes(__name__)
