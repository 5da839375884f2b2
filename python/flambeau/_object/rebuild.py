"""What pickles of tensors call: each function makes a tensor from its storage, geometry and attributes."""

from __future__ import annotations

import copyreg
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._object.typed_storage import CLASS_OF_DTYPE


def reduced(tensor: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the function and the arguments that make the tensor again, its class and attributes included."""
    function, arguments = _plain(tensor)
    state = state_of(tensor)
    if type(tensor) is Tensor and not state:
        return function, arguments
    return _rebuild_from_type_v2, (function, type(tensor), arguments, state)


def _plain(tensor: Any) -> tuple[Any, tuple[Any, ...]]:
    geometry = (tuple(tensor.shape), tensor.stride())
    if _C._has_no_memory(tensor):
        return _rebuild_wrapper_subclass, wrapper_parts(tensor)
    if tensor.is_meta:
        return _rebuild_meta_tensor_no_storage, (tensor.dtype, *geometry, tensor.requires_grad)
    if tensor.is_sparse:
        return _rebuild_sparse_tensor, sparse_parts(tensor)
    views = {"conj": tensor.is_conj(), "neg": tensor.is_neg()}
    pending = {name: True for name, is_pending in views.items() if is_pending}
    place: tuple[Any, ...] = (tensor.storage_offset(), *geometry, tensor.requires_grad, OrderedDict())
    last = (pending,) if pending else ()
    if tensor.dtype in CLASS_OF_DTYPE:
        return _rebuild_tensor_v2, (tensor.storage(), *place, *last)
    return _rebuild_tensor_v3, (tensor.untyped_storage(), *place, tensor.dtype, *last)


def slots_of(obj: Any) -> dict[str, Any]:
    """Return what the slots of an object's class hold."""
    names = copyreg._slotnames(type(obj))  # type: ignore[attr-defined]
    return {name: getattr(obj, name) for name in names if hasattr(obj, name)}


def state_of(obj: Any) -> Any:
    """Return an object's attributes; a pair (attributes, slots) if slots are set; None if it has neither."""
    attributes = {name: value for name, value in vars(obj).items() if name != "grad"}
    slots = slots_of(obj)
    return (attributes, slots) if slots else attributes or None


def set_state(obj: Any, state: Any) -> Any:
    """Set what `state_of` gave."""
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(attributes or {}), **(slots or {})}.items():
        setattr(obj, name, value)
    return obj


def _seen(
    storage: Any, dtype: Any, offset: int, size: Any, stride: Any, requires_grad: bool, metadata: Any
) -> Tensor:
    out = _C._rebuild(storage.tensor, dtype, size, stride, offset)
    for name in metadata or ():
        view = {"conj": _C._functions.conj, "neg": _C._functions._neg_view}[name]
        out = view(out).detach() if metadata[name] else out
    return out.requires_grad_() if requires_grad else out


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """Return a tensor over a storage that knows its dtype."""
    where = (storage_offset, size, stride)
    return _seen(storage.untyped(), storage.dtype, *where, requires_grad, metadata)


def _rebuild_tensor_v3(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    """Return a tensor over a storage of bytes."""
    return _seen(storage.untyped(), dtype, storage_offset, size, stride, requires_grad, metadata)


def _rebuild_meta_tensor_no_storage(dtype: Any, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    """Return a tensor without elements."""
    out = _C._functions.empty_strided(size, stride, dtype=dtype, device="meta")
    return out.requires_grad_() if requires_grad else out


def wrapper_parts(tensor: Any) -> tuple[Any, ...]:
    """Return what makes a tensor without memory again, apart from its attributes."""
    place = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.layout, tensor.device)
    return (type(tensor), tensor.dtype, *place, tensor.requires_grad)


def _rebuild_wrapper_subclass(
    cls: Any, dtype: Any, sizes: Any, strides: Any, offset: int, layout: Any, device: Any, requires_grad: bool
) -> Any:
    """Return a tensor without memory of a class with `__torch_dispatch__`, without its attributes."""
    from flambeau._object.subclass import make_wrapper_subclass

    place = _mapped(device)
    return make_wrapper_subclass(
        cls, sizes, strides, offset, dtype=dtype, layout=layout, device=place, requires_grad=requires_grad
    )


# The `map_location` of the file that is being read.
_location: ContextVar[Any] = ContextVar("map_location", default=None)


@contextmanager
def wrappers_at(location: Any) -> Iterator[None]:
    """Make tensors without memory on the devices that `map_location` names, inside the block."""
    token = _location.set(location)
    try:
        yield
    finally:
        _location.reset(token)


def _mapped(device: Any) -> Any:
    """Return the device where `map_location` puts a tensor without memory of this device.

    Raises:
        RuntimeError: `map_location` is a function: it maps storages, and the tensor has none.
    """
    location = _location.get()
    if isinstance(location, dict):
        return location.get(device, device)  # by device, as in PyTorch: names map storages alone
    if callable(location) and not isinstance(location, _C.device):  # a device is a decorator as well
        raise RuntimeError(
            "load: expected a device or a dict as map_location of a tensor without memory, got a function "
            "(Callable map_location not supported)"
        )
    return device if location is None else location


def sparse_parts(tensor: Any) -> tuple[Any, ...]:
    """Return what makes a sparse tensor again: its layout and its parts."""
    return tensor.layout, (tensor._indices(), tensor._values(), tensor.shape, tensor.is_coalesced())


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Tensor:
    """Return a sparse tensor of its indices, values, sizes and whether it is coalesced."""
    from flambeau._object.sparse import sparse_coo_tensor

    if layout != _C.sparse_coo:
        raise NotImplementedError(f"load: expected layout sparse_coo for a sparse tensor, got {layout}")
    indices, values, size, *flag = data
    is_coalesced = bool(flag and flag[0])
    return sparse_coo_tensor(indices, values, size, is_coalesced=is_coalesced, check_invariants=True)


def rebuilt_sparse(cls: type, parts: tuple[Any, ...], requires_grad: bool) -> Any:
    """Return a tensor or a Parameter of what `sparse_parts` gave, in another process."""
    out = _rebuild_sparse_tensor(*parts)
    if cls is Tensor:
        return out.requires_grad_(requires_grad) if requires_grad else out
    return cls(out, requires_grad)


def _rebuild_from_type_v2(func: Any, new_type: Any, args: tuple[Any, ...], state: Any) -> Any:
    """Return a tensor of a class with attributes."""
    out = func(*args)
    if type(out) is not new_type:
        out = out.as_subclass(new_type)
    if state is None:
        return out
    if new_type.__setstate__ is not Tensor.__setstate__:  # type: ignore[attr-defined]
        out.__setstate__(state)
        return out
    return set_state(out, state)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any = None) -> Any:
    """Return a parameter."""
    from flambeau.nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Any:
    """Return a parameter with attributes."""
    return set_state(_rebuild_parameter(data, requires_grad), state)
