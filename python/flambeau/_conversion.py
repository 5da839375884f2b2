"""Tensors from data and from memory that others own."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor, device, dtype

Device = device | str


def tensor(
    data: Any,
    *,
    dtype: dtype | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Copy data into a new tensor.

    Args:
        data: a number, nested sequences of numbers, an array or a tensor.
        dtype: of the result; by default bool, int64, the default float or complex type, or the source's own.
        device: where to put it.
        requires_grad: whether gradients are collected for it.
        pin_memory: accepted for compatibility; memory of the host needs no pinning here.
    Shape: that of the nesting.
    Raises: ValueError for ragged nesting, TypeError for what is no number.

    >>> tensor([[1, 2], [3, 4]]).shape
    flambeau.Size([2, 2])
    """
    out = _C.tensor(data, dtype, device)
    return out.requires_grad_() if requires_grad else out


def as_tensor(data: Any, dtype: dtype | None = None, device: Device | None = None) -> Tensor:
    """Return data as a tensor, sharing memory where dtype and device allow it.

    Args:
        data: as for `tensor`; NumPy arrays and tensors are shared, everything else is copied.
        dtype: of the result; by default the source's.
        device: where to put it; by default where the source is.
    """
    if not isinstance(data, Tensor):
        if not hasattr(data, "__array_interface__") or not getattr(data, "shape", True):
            return _C.tensor(data, dtype, device)
        data = _C._from_array_interface(data)
    same = (dtype is None or data.dtype is dtype) and (
        device is None or data.device.type == _C.device(device).type
    )
    return data if same else data.to(device=device, dtype=data.dtype if dtype is None else dtype)


def asarray(
    obj: Any,
    *,
    dtype: dtype | None = None,
    device: Device | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return an object as a tensor: shared if possible, copied if asked for or needed.

    Args:
        obj: a tensor, an array, an object with DLPack or the buffer protocol, or data as for `tensor`.
        dtype: of the result; by default the source's.
        device: where to put it.
        copy: True: always copy. False: never (ValueError if that is impossible). None: if needed.
        requires_grad: whether gradients are collected for it.
    """
    shareable = isinstance(obj, Tensor) or hasattr(obj, "__array_interface__") or hasattr(obj, "__dlpack__")
    if isinstance(obj, Tensor) or hasattr(obj, "__array_interface__"):
        source = obj
    else:
        source = from_dlpack(obj) if shareable else obj
    out = as_tensor(source, dtype, device)
    shared = shareable and (not isinstance(source, Tensor) or out is source)
    if copy is False and not shared:
        raise ValueError("can't alias arbitrary object as a tensor: a copy is needed")
    if copy and shared:
        out = out.clone()
    return out.requires_grad_() if requires_grad else out


def from_numpy(array: Any) -> Tensor:
    """Return a tensor that shares the memory of a NumPy array.

    Args:
        array: of a numeric dtype that flambeau has, with strides that are not negative.
    Raises: TypeError for anything else than an array of such a dtype.
    """
    if not hasattr(array, "__array_interface__"):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    return _C._from_array_interface(array)


def frombuffer(
    buffer: Any, *, dtype: dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Return a one-dimensional tensor that shares an object's memory by the buffer protocol.

    Args:
        buffer: the object.
        dtype: how to read its bytes.
        count: number of elements; -1: as many as there are.
        offset: bytes to skip.
        requires_grad: whether gradients are collected for it.
    """
    out = _C._from_buffer(buffer, dtype, count, offset)
    return out.requires_grad_() if requires_grad else out


def from_dlpack(source: Any) -> Tensor:
    """Return a tensor that shares memory by the DLPack protocol.

    Args:
        source: an object with ``__dlpack__``, or a capsule of an older exporter.
    """
    return _C._from_dlpack_capsule(source.__dlpack__() if hasattr(source, "__dlpack__") else source)
