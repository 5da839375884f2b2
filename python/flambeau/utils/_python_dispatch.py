"""Queries about tensor subclasses that wrap other tensors."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor
from flambeau._loading.lazy import attributes


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether it is a tensor of a class that can be taken apart: one that has `__tensor_flatten__`."""
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether a class of tensors has `__tensor_flatten__` and `__tensor_unflatten__`."""
    return (
        issubclass(t, Tensor)
        and t is not Tensor
        and all(hasattr(t, name) for name in ("__tensor_flatten__", "__tensor_unflatten__"))
    )


def transform_subclass(t: Any, callback: Any, outer_size: Any = None, outer_stride: Any = None) -> Any:
    """Return a tensor of the same class whose inner tensors are what `callback(name, inner)` returns."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    return type(t).__tensor_unflatten__(inner, context, size, stride)


__getattr__, __dir__ = attributes(__name__)
