"""Tensors from data and from memory that others own."""

from __future__ import annotations

import mmap
from pathlib import Path
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


def from_file(
    filename: Any,
    shared: bool = False,
    size: int | None = 0,
    *,
    dtype: dtype | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    **_: Any,
) -> Tensor:
    """Return a tensor over the bytes of a file, which is mapped into memory.

    Args:
        filename: of the file; made, or made longer, if it is `shared`.
        shared: whether writing to the tensor writes to the file.
        size: number of elements.
        dtype: how to read the bytes; by default the default dtype.
        device: the CPU.
        requires_grad: whether gradients are collected for it.
    Raises: RuntimeError if the file cannot be opened or is too short.
    """
    kind = _C.get_default_dtype() if dtype is None else dtype
    count = (size or 0) * kind.itemsize
    try:
        with Path(filename).open("a+b" if shared else "rb") as file:
            have = file.seek(0, 2)
            if shared and have < count:
                file.truncate(count)
            elif have < count:
                raise RuntimeError(
                    f"file <{filename}> size <{have}> is smaller than the required size <{count}>"
                )
            if not count:
                return _C._functions.empty((0,), dtype=kind)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            memory = mmap.mmap(file.fileno(), count, access=access)
    except OSError as error:
        raise RuntimeError(f"unable to open file <{filename}>: {error}") from error
    return frombuffer(memory, dtype=kind, requires_grad=requires_grad)


def from_dlpack(ext_tensor: Any, *, device: Device | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor that shares memory by the DLPack protocol.

    Args:
        ext_tensor: an object with ``__dlpack__``, or a capsule of an older exporter.
        device: where the result is to be; by default where the memory is.
        copy: True: always copy; False: never; None: only to another device.
    Raises: ValueError if a copy is needed that may not be made.
    """
    capsule = ext_tensor.__dlpack__() if hasattr(ext_tensor, "__dlpack__") else ext_tensor
    found = _C._from_dlpack_capsule(capsule)
    moved = found if device is None else found.to(device)
    if copy is False and moved is not found:
        raise ValueError(f"from_dlpack: cannot move to {device} without a copy")
    return moved.clone() if copy and moved is found else moved
