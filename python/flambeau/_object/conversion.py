"""Tensors from data and from memory that others own."""

from __future__ import annotations

import mmap
import warnings
from pathlib import Path
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, device, dtype
from flambeau._object.exchange import from_dlpack

__all__ = ["as_tensor", "asarray", "from_dlpack", "from_file", "from_numpy", "frombuffer", "tensor"]

Device = device | str


def warn_of_copy(data: Any) -> None:
    """Say what copies a tensor better than a function for data does."""
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, call its detach().clone(), and requires_grad_() on that",
            UserWarning,
            stacklevel=3,
        )


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
    Raises: ValueError for ragged nesting, TypeError for a value that is not a number.

    >>> tensor([[1, 2], [3, 4]]).shape
    flambeau.Size([2, 2])
    """
    warn_of_copy(data)
    if isinstance(data, Tensor) and data.is_sparse:
        out = data.detach().to(dtype=dtype or data.dtype, device=device or data.device, copy=True)
    else:
        out = _C.tensor(data, dtype, device)
    return out.requires_grad_() if requires_grad else out


def as_tensor(data: Any, dtype: dtype | None = None, device: Device | None = None) -> Tensor:
    """Return data as a tensor, sharing memory where dtype and device allow it.

    Args:
        data: as for `tensor`; NumPy arrays, tensors and objects with ``__dlpack__`` are shared, everything
            else is copied.
        dtype: of the result; by default the source's.
        device: where to put it; by default where the source is.
    """
    shared = _shared(data)
    return _C.tensor(data, dtype, device) if shared is None else _placed(shared, dtype, device)


def _shared(data: Any) -> Tensor | None:
    """Return a tensor over the memory of data that share theirs with tensors; None for others."""
    if isinstance(data, Tensor):
        return data
    if type(data) in _COPIED:
        return None
    if _C._is_ndarray(data):
        return _C._from_array_interface(data)
    return from_dlpack(data) if hasattr(data, "__dlpack__") else None


_COPIED = (list, tuple, int, float, bool, complex)  # never shared, whatever else has an attribute


def _placed(source: Tensor, dtype: dtype | None, device: Device | None) -> Tensor:
    same = (dtype is None or source.dtype is dtype) and (
        device is None or source.device.type == _C.device(device).type
    )
    kind = source.dtype if dtype is None else dtype
    return source if same else source.to(device=device, dtype=kind)


def asarray(
    obj: Any,
    *,
    dtype: dtype | None = None,
    device: Device | None = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Return an object as a tensor: shared if possible, copied if asked for or needed.

    Args:
        obj: a tensor, a NumPy array, a DLPack capsule, an object with the buffer protocol, whose bytes are
            read as `dtype`, or data as for `tensor`.
        dtype: of the result; by default the source's, for buffers the default dtype.
        device: where to put it.
        copy: True: always copy. False: never (ValueError if that is impossible). None: if needed.
        requires_grad: whether gradients are collected for it; None: as for `obj`.
    """
    source = _aliased(obj, dtype, copy)
    if source is None:
        if copy is False:
            raise ValueError(
                "asarray: can't alias arbitrary sequence into a tensor: expected an object with its own "
                f"memory for copy=False, got {type(obj).__name__}"
            )
        return tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    wanted = source.requires_grad if requires_grad is None else requires_grad
    out = _placed(source, dtype, device)
    if copy is False and out is not source:
        raise ValueError(
            f"asarray: can't alias the object with another dtype or device: expected {source.dtype} "
            f"on {source.device} for copy=False, got {out.dtype} on {out.device}"
        )
    if copy and out is source:
        out = out.clone()
    if not out.is_leaf and not wanted:
        out = out.detach()
    return out if out.requires_grad == wanted else out.requires_grad_(wanted)


def _aliased(obj: Any, dtype: dtype | None, copy: bool | None) -> Tensor | None:
    """Return a tensor over the object's memory, if it has any to share."""
    if isinstance(obj, Tensor):
        return obj
    if _C._is_ndarray(obj):
        return _C._from_array_interface(obj)
    if type(obj).__name__ == "PyCapsule":
        return from_dlpack(obj)
    if _C._is_numpy_scalar(obj):
        if copy is False:
            raise RuntimeError(
                "asarray: can't alias NumPy scalars: they share no memory; pass copy=None or copy=True"
            )
        return None
    if type(obj) not in _COPIED and _C._has_buffer(obj):
        return frombuffer(obj, dtype=dtype or _C.get_default_dtype())
    return None


def from_numpy(array: Any, /) -> Tensor:
    """Return a tensor that shares the memory of a NumPy array.

    Args:
        array: of a numeric dtype that flambeau has, with strides that are not negative.
    Warns: once if the array is not writable: tensors always are.
    Returns: the tensor, of the array's sizes and strides.
    Raises: TypeError for anything else than an array of such a dtype; ValueError for strides that are
        negative or no multiples of the element size, and for a foreign byte order.

    Example:
        >>> import numpy
        >>> array = numpy.zeros(2, numpy.float32)
        >>> flambeau.from_numpy(array).fill_(1.0)
        tensor([1., 1.])
        >>> array.tolist()
        [1.0, 1.0]
    """
    return _C._from_array_interface(array)


def frombuffer(
    buffer: Any, *, dtype: dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Return a one-dimensional tensor that shares an object's memory by the buffer protocol.

    Args:
        buffer: the object.
        dtype: how to read its bytes.
        count: number of elements; negative: as many as there are.
        offset: bytes to skip.
        requires_grad: whether gradients are collected for it.
    Returns: the tensor.
    Raises: ValueError for a tensor, and if `count` and `offset` do not fit the memory.

    Example:
        >>> flambeau.frombuffer(bytearray([1, 2, 3]), dtype=flambeau.uint8, offset=1)
        tensor([2, 3], dtype=flambeau.uint8)
    """
    if isinstance(buffer, Tensor):
        raise ValueError(
            "frombuffer: expected bytes or another object with the buffer protocol, got a Tensor"
        )
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
                    f"from_file: file <{filename}> size <{have}> is smaller than the required size "
                    f"<{count}>; pass a smaller size or a larger file"
                )
            if not count:
                return _C._functions.empty((0,), dtype=kind)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            memory = mmap.mmap(file.fileno(), count, access=access)
    except OSError as error:
        raise RuntimeError(f"from_file: unable to open file <{filename}>: {error}") from error
    return frombuffer(memory, dtype=kind, requires_grad=requires_grad)
