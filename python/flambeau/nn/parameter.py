"""Tensors that a module owns: learned parameters and buffers."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau._loading.lazy import attributes
from flambeau._object.rebuild import _rebuild_parameter, _rebuild_parameter_with_state, state_of


class _ParameterMeta(type(Tensor)):  # type: ignore[misc]
    """Makes `isinstance(x, Parameter)` true for a parameter of another class of tensors."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False):
            return True
        return super().__instancecheck__(instance)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """Tensor that a `Module` lists among its parameters when it is assigned as an attribute.

    Args:
        data: the values; shared, not copied. A tensor of a subclass keeps its class. None means an empty
            tensor.
        requires_grad: whether gradients are collected.
    Raises: RuntimeError if the `detach` of a subclass gives another type.
    See also: Buffer, UninitializedParameter

    Example:
        >>> layer = flambeau.nn.Module()
        >>> layer.scale = flambeau.nn.Parameter(flambeau.ones(2))
        >>> list(layer.parameters())
        [Parameter containing:
        tensor([1., 1.], requires_grad=True)]
    """

    # What is computed from parameters is not a parameter.
    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = flambeau.empty(0)
        if type(data) in (Tensor, Parameter) or isinstance(data, cls):
            made: Any = _C._as_subclass(data.detach(), cls)
            return made.requires_grad_(requires_grad)
        own: Any = data.detach().requires_grad_(requires_grad)
        if type(own) is not type(data):
            raise RuntimeError(
                "Parameter: Parameter requires that detach() keeps the type: expected "
                f"{type(data).__name__}, got {type(own).__name__}"
            )
        vars(own)["_is_param"] = True
        parameter: Any = own  # an instance by the class's word
        return parameter

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts: tuple[Any, ...] = (_C._as_subclass(self.detach(), Tensor), self.requires_grad, OrderedDict())
        state = state_of(self)
        if state is None:
            return _rebuild_parameter, parts
        return _rebuild_parameter_with_state, (*parts, state)


# Functions that accept a tensor without a shape.
_ALLOWED = frozenset(
    "__hash__ size copy_ is_complex is_floating_point half float double char short int long cuda cpu to "
    "get_device detach as_subclass requires_grad_".split()
)


class UninitializedTensorMixin:
    """Base class of tensors whose shape is not known yet; `materialize` makes them ordinary tensors.

    See also: UninitializedParameter, UninitializedBuffer

    Example:
        >>> mixin = flambeau.nn.parameter.UninitializedTensorMixin
        >>> isinstance(flambeau.nn.LazyLinear(2).weight, mixin)
        True
    """

    cls_to_become: Any

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of this shape, not initialised."""
        place: dict[str, Any] = {"device": device or self.device, "dtype": dtype or self.dtype}
        self.materialize_as(flambeau.empty(shape, **place))

    def materialize_as(self: Any, values: Tensor) -> None:
        """Become a tensor with these values."""
        self.data = values.detach()
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        """Unknown. Raises: RuntimeError."""
        raise RuntimeError(
            "UninitializedParameter: the shape of an uninitialized parameter or buffer is unknown; "
            "call the lazy module once first, or load a state into it"
        )

    def share_memory_(self) -> Any:
        """Raise RuntimeError: there is no memory yet."""
        raise RuntimeError(
            "UninitializedParameter: cannot share memory on an uninitialized parameter or buffer, "
            "which has none yet; initialize it first"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name not in _ALLOWED and type(func).__name__ != "method-wrapper":
            raise ValueError(
                f"{name or func}: cannot use an uninitialized parameter: expected an initialized one, "
                "got one without a shape; call the lazy module once first, or load a state into it"
            )
        with _disabled():
            return func(*args, **(kwargs or {}))


def _disabled() -> Any:
    from flambeau._state.function_state import DisableTorchFunctionSubclass

    return DisableTorchFunctionSubclass()


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """Parameter whose shape is not known yet; `materialize` makes it an ordinary one.

    Args:
        requires_grad: whether gradients are collected.
        device: the device of the values to come. None means the default device.
        dtype: the dtype of the values to come. None means the default dtype.
    Raises: RuntimeError if its shape is read.
    See also: LazyLinear, UninitializedBuffer

    Example:
        >>> weight = flambeau.nn.UninitializedParameter()
        >>> weight.materialize((2, 3))
        >>> weight.shape
        flambeau.Size([2, 3])
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        made: Any = _C._as_subclass(flambeau.empty(0, device=device, dtype=dtype), cls)
        return made.requires_grad_(requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """Buffer whose shape is not known yet; `materialize` makes it an ordinary tensor.

    Args:
        requires_grad: whether gradients are collected.
        device: the device of the values to come. None means the default device.
        dtype: the dtype of the values to come. None means the default dtype.
        persistent: whether `state_dict` contains it.
    Raises: RuntimeError if its shape is read.
    See also: LazyBatchNorm1d, UninitializedParameter

    Example:
        >>> mean = flambeau.nn.UninitializedBuffer()
        >>> mean.materialize((2,))
        >>> mean.shape
        flambeau.Size([2])
    """

    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        out: Any = _C._as_subclass(flambeau.empty(0, device=device, dtype=dtype), cls)
        out.persistent, out._is_buffer = persistent, True
        return out.requires_grad_() if requires_grad else out


def is_lazy(param: Any) -> bool:
    """Tell whether a parameter or buffer has no shape yet.

    Args:
        param: any object.
    Returns: a bool.

    Example:
        >>> flambeau.nn.parameter.is_lazy(flambeau.nn.LazyLinear(2).weight)
        True
    """
    return isinstance(param, UninitializedTensorMixin)


class _BufferType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(metaclass=_BufferType):
    """Tensor that a `Module` registers as a buffer, which is not a parameter, when it is assigned as an
    attribute.

    Args:
        data: the values; shared, not copied. None means an empty tensor.
        persistent: whether `state_dict` contains it.
    See also: Parameter

    Example:
        >>> layer = flambeau.nn.Module()
        >>> layer.mean = flambeau.nn.Buffer(flambeau.zeros(2))
        >>> list(layer.state_dict())
        ['mean']
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        source = flambeau.empty(0) if data is None else data
        out = source.detach().requires_grad_(source.requires_grad)
        out.persistent, out._is_buffer = persistent, True  # type: ignore[attr-defined]
        return out


__getattr__, __dir__ = attributes(__name__)
