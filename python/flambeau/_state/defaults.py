"""Defaults of the process: device, type of tensors, precision of matrix products."""

from __future__ import annotations

import warnings
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, device, dtype

__all__ = [
    "compiled_with_cxx11_abi",
    "get_default_device",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_warn_always_enabled",
    "set_default_device",
    "set_default_tensor_type",
    "set_float32_matmul_precision",
    "set_num_interop_threads",
    "set_warn_always",
]

_TYPES = {
    "Float": _C.float32, "Double": _C.float64, "Half": _C.float16, "BFloat16": _C.bfloat16,
    "Byte": _C.uint8, "Char": _C.int8, "Short": _C.int16, "Int": _C.int32, "Long": _C.int64,
    "Bool": _C.bool,
}  # fmt: skip
_state: dict[str, Any] = {"precision": "highest", "interop": None, "always": False}


class TensorType(type):
    """The type of tensors of one dtype, such as ``FloatTensor``: makes them and recognises them."""

    dtype: dtype

    def __call__(cls, *args: Any) -> Tensor:
        """Make a tensor from data, or from sizes (not initialised)."""
        if len(args) == 1 and not isinstance(args[0], int):
            data = args[0]
            if isinstance(data, Tensor) and data.dtype != cls.dtype:
                raise TypeError(f"{cls.__name__}: expected a tensor of {cls.dtype}, got {data.dtype}")
            if type(data).__name__ == "Size":
                return _C._functions.empty(data, dtype=cls.dtype)
            return data if isinstance(data, Tensor) else _C.tensor(data, cls.dtype, None)
        return _C._functions.empty(args or (0,), dtype=cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        """Whether it is a tensor of this dtype on the CPU."""
        return (
            isinstance(instance, Tensor)
            and instance.dtype == cls.dtype
            and instance.is_cpu
            and not instance.is_sparse
        )


class SparseTensorType(TensorType):
    """The type of sparse tensors of one dtype, such as ``sparse.FloatTensor``."""

    def __call__(cls, *args: Any) -> Tensor:
        """Make a sparse tensor from indices, values and sizes, or from sizes alone."""
        from flambeau._object.sparse import sparse_coo_tensor

        if len(args) < 2 or isinstance(args[0], int):
            sizes = args if not args or isinstance(args[0], int) else tuple(args[0])
            return sparse_coo_tensor(sizes, dtype=cls.dtype)
        return sparse_coo_tensor(*args, dtype=cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        """Whether it is a sparse tensor of this dtype."""
        return isinstance(instance, Tensor) and instance.is_sparse and instance.dtype == cls.dtype


def sparse_types() -> dict[str, Any]:
    """Return the names of `flambeau.sparse` for types of sparse tensors."""
    named = ((f"{kind}Tensor", dtype) for kind, dtype in _TYPES.items())
    where = {"__module__": "flambeau.sparse"}
    return {name: SparseTensorType(name, (), {"dtype": dtype, **where}) for name, dtype in named}


_TYPE_DOC = """Type of the CPU tensors of one dtype: {name}. Older form of ``tensor(..., dtype={name})``.

Args:
    *args: the elements, converted to {name}; or sizes, for elements that are not initialised.
Raises: TypeError for a tensor of another dtype.
See also: tensor, empty, set_default_dtype

Example:
    >>> flambeau.{kind}Tensor([0, 1]).dtype
    {name}
    >>> isinstance(flambeau.ones(2, dtype={name}), flambeau.{kind}Tensor)
    True
"""


def _tensor_type(kind: str, dtype: dtype) -> TensorType:
    """Return the type of CPU tensors of a dtype, such as ``FloatTensor``."""
    return TensorType(
        f"{kind}Tensor", (), {"dtype": dtype, "__doc__": _TYPE_DOC.format(kind=kind, name=dtype)}
    )


TENSOR_TYPES = {f"{kind}Tensor": _tensor_type(kind, dtype) for kind, dtype in _TYPES.items()}


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by the type of its tensors. Deprecated: use `set_default_dtype`.

    Args:
        t: a type of floating tensors, such as ``flambeau.DoubleTensor``, or its name.
    Returns: nothing.
    Raises: TypeError for a name of no such type, and for a type of integers or bools.

    Example:
        >>> flambeau.set_default_tensor_type(flambeau.DoubleTensor)
        >>> flambeau.get_default_dtype() == flambeau.float64
        True
        >>> flambeau.set_default_tensor_type(flambeau.FloatTensor)
    """
    warnings.warn(
        "set_default_tensor_type() is deprecated; call set_default_dtype() and set_default_device()",
        UserWarning,
        stacklevel=2,
    )
    name = t if isinstance(t, str) else getattr(t, "__name__", str(t))
    chosen = TENSOR_TYPES.get(name.rpartition(".")[2])
    if chosen is None:
        raise TypeError(
            f"set_default_tensor_type: invalid type object: expected a floating tensor type, got {t!r}"
        )
    if not chosen.dtype.is_floating_point:
        raise TypeError(f"set_default_tensor_type: expected a tensor type of a floating dtype, got {t!r}")
    _C.set_default_dtype(chosen.dtype)


def get_default_device() -> device:
    """Return the device of tensors that are made without one.

    Returns: the device that `set_default_device` or the innermost ``with device(...)`` set, the CPU at first.

    Example:
        >>> flambeau.get_default_device()
        device(type='cpu')
    """
    return _C._get_default_device() or device("cpu")


def set_default_device(device: Any) -> None:
    """Set the device of tensors that are made without one, in this thread.

    It holds for what is made from sizes, numbers and Python data. ``with device("meta"):`` does the same
    for a block.

    Args:
        device: the device, its name or its index; None: the CPU.
    Returns: nothing.

    Example:
        >>> flambeau.set_default_device("meta")
        >>> flambeau.ones(2).device
        device(type='meta')
        >>> flambeau.set_default_device(None)
    """
    _C._set_default_device(device)


_outer: list[Any] = []


def _enter(self: device) -> device:
    _outer.append(_C._get_default_device())
    _C._set_default_device(self)
    return self


def _exit(self: device, *exc: object) -> None:
    _C._set_default_device(_outer.pop())


def _decorate(self: device, function: Any) -> Any:
    """Run a function with this default device."""
    import functools

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        with self:
            return function(*args, **kwargs)

    return inner


for _name, _method in (("__enter__", _enter), ("__exit__", _exit), ("__call__", _decorate)):
    setattr(device, _name, _method)
del _name, _method


def set_float32_matmul_precision(precision: str) -> None:
    """Allow float32 products to be computed in lower precision.

    The CPU always computes them in full precision. Any other value warns and changes nothing.

    Args:
        precision: ``"highest"``, ``"high"`` or ``"medium"``.
    Returns: nothing.

    Example:
        >>> flambeau.set_float32_matmul_precision("high")
        >>> flambeau.get_float32_matmul_precision()
        'high'
        >>> flambeau.set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        warnings.warn(f"{precision!r} has no effect: expected 'highest', 'high' or 'medium'", stacklevel=2)
        return
    _state["precision"] = precision


def get_float32_matmul_precision() -> str:
    """Return the precision that `set_float32_matmul_precision` set.

    Returns: ``"highest"`` at first, ``"high"`` or ``"medium"``.

    Example:
        >>> flambeau.get_float32_matmul_precision()
        'highest'
    """
    return _state["precision"]


def set_num_interop_threads(n: int, /) -> None:
    """Set how many operators may run at once. The number is kept and has no effect: operators run one by one.

    Args:
        n: the number, from 1 on.
    Returns: nothing.
    Raises: RuntimeError if the number is not positive, and at a second call.

    Example:
        >>> try:
        ...     flambeau.set_num_interop_threads(0)
        ... except RuntimeError:
        ...     print("refused")
        refused
    """
    if n <= 0:
        raise RuntimeError(f"set_num_interop_threads: expected a positive number, got {n}")
    if _state["interop"] is not None:
        raise RuntimeError("set_num_interop_threads: the number has been set already; it can be set once")
    _state["interop"] = n


def init_num_threads() -> None:
    """Prepare the calling thread for parallel loops; the number of threads is the process's, and known."""


def get_num_interop_threads() -> int:
    """Return the number that `set_num_interop_threads` set.

    Returns: the number; before it is set, the number of threads of one operator.

    Example:
        >>> flambeau.get_num_interop_threads() > 0
        True
    """
    return _state["interop"] or _C.get_num_threads()


def set_warn_always(b: bool) -> None:
    """Set whether warnings that PyTorch gives once are repeated. Here Python's filters alone decide that.

    Args:
        b: whether to repeat them; `is_warn_always_enabled` returns it.
    Returns: nothing.

    Example:
        >>> flambeau.set_warn_always(True)
        >>> flambeau.is_warn_always_enabled()
        True
        >>> flambeau.set_warn_always(False)
    """
    _state["always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """Return the value that `set_warn_always` set.

    Returns: the value, False at first.

    Example:
        >>> flambeau.is_warn_always_enabled()
        False
    """
    return _state["always"]


def compiled_with_cxx11_abi() -> bool:
    """Return whether the extension uses the C++11 ABI.

    Returns: True.

    Example:
        >>> flambeau.compiled_with_cxx11_abi()
        True
    """
    return True
