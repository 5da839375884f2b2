"""Parts of PyTorch that libraries call: flat tensors, tensors of files, exceptions of workers, devices."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import Tensor


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """Return one vector of all elements."""
    return flambeau.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Return views of a vector with the shapes of `tensors`."""
    shapes = [tensor.shape for tensor in tensors]
    parts = flat.split([shape.numel() for shape in shapes])
    return tuple(part.view(shape) for part, shape in zip(parts, shapes, strict=True))


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterable[list[Tensor]]:
    """Yield lists of tensors of one dtype, each of about `size_limit` bytes."""
    lists: dict[str, tuple[list[Tensor], int]] = {}
    for tensor in tensors:
        known, size = lists.get(tensor.type(), ([], 0))
        if known and size + tensor.nbytes > size_limit:
            yield known
            known, size = [], 0
        lists[tensor.type()] = [*known, tensor], size + tensor.nbytes
    yield from (known for known, _ in lists.values() if known)


def _reorder_tensors_as(tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Reorder tensors that were grouped by dtype to match the order of `ordered_tensors`."""
    by_type: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type(), []).append(tensor)
    queues = {name: iter(found) for name, found in by_type.items()}
    return tuple(next(queues[tensor.type()]) for tensor in ordered_tensors)


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """Return a tensor over a storage, with the geometry that a file gives."""
    return flambeau.empty((0,), dtype=storage.dtype).set_(storage.untyped(), storage_offset, size, stride)


def _element_size(dtype: _C.dtype) -> int:
    """Return the bytes of one element."""
    return dtype.itemsize


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the index of a device; -1 for the CPU if that is allowed."""
    if isinstance(device, str):
        device = flambeau.device(device)
    index: Any = None
    if isinstance(device, flambeau.device):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"_get_device_index: expected the index of a non cpu device, got {device}")
        index = -1 if device.type == "cpu" else device.index
    elif isinstance(device, int):
        index = device
    if index is None:
        if not optional:
            raise ValueError(
                "_get_device_index: expected an integer or a device with an index, such as cuda:0, got "
                f"{device}"
            )
        return 0
    return index


def _get_all_device_indices() -> list[int]:
    """Return the indices of the accelerator's devices."""
    from flambeau.accelerator import device_count

    return list(range(device_count()))


def _get_available_device_type() -> str | None:
    """Return the kind of the accelerator; None if there is no device of it."""
    from flambeau.accelerator import current_accelerator

    found = current_accelerator(check_available=True)
    return None if found is None else str(found.type)


class KeyErrorMessage(str):
    """A text that `repr` leaves as it is: KeyError shows the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception that goes to another thread or process with its traceback as text.

    Args:
        exc_info: what `sys.exc_info` returns; the exception at hand by default.
        where: where it was raised.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        found = exc_info or sys.exc_info()
        self.exc_type = found[0]
        self.exc_msg = "".join(traceback.format_exception(*found))
        self.where = where

    def reraise(self) -> None:
        """Raise an exception of the same type with the text."""
        kind: Any = self.exc_type
        message = f"Caught {kind.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if kind is KeyError:
            message = KeyErrorMessage(message)
        try:
            exception = kind(message=message) if getattr(kind, "message", None) else kind(message)
        except Exception:  # it cannot be made of a text
            raise RuntimeError(message) from None
        raise exception


class _ClassPropertyDescriptor:
    def __init__(self, fget: Any, fset: Any = None) -> None:
        self.fget = fget

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.fget.__get__(instance, owner or type(instance))()


def classproperty(func: Any) -> Any:
    """Turn a function of a class into a property of that class."""
    function = func if isinstance(func, classmethod | staticmethod) else classmethod(func)
    return _ClassPropertyDescriptor(function)


class CallbackRegistry:
    """Functions that are called together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.callback_list: list[Callable[..., Any]] = []

    def add_callback(self, cb: Callable[..., Any]) -> None:
        """Add a function."""
        self.callback_list.append(cb)

    def fire_callbacks(self, *args: Any, **kwargs: Any) -> None:
        """Call all functions; what one raises is printed and does not stop the others."""
        for callback in self.callback_list:
            try:
                callback(*args, **kwargs)
            except Exception:
                traceback.print_exc()


def render_call(fn: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Return a call as text, tensors by dtype and shape."""
    shown = [repr(a) for a in args] + [f"{name}={value!r}" for name, value in kwargs.items()]
    return f"{getattr(fn, '__qualname__', fn)}({', '.join(shown)})"


def is_compiling() -> bool:
    """Whether a compiler traces this code: never."""
    return False


def try_import(module_name: str) -> Any:
    """Return a module, or None where it is not installed."""
    from importlib import import_module, util

    return import_module(module_name) if util.find_spec(module_name) else None
