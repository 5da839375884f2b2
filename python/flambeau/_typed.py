"""Tensors by the name of their type: `FloatTensor([1, 2])`, `x.type("torch.LongTensor")`.

These are older names for a dtype on the host. Calling one makes a tensor of that dtype, and a tensor counts
as an instance if it has the dtype and lies in the host's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._conversion import tensor

NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "uint8": "Byte",
    "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


class TensorType(type):
    """The type of `FloatTensor` and its like."""

    dtype: _C.dtype

    def __call__(cls, *args: Any) -> Tensor:
        """Make a tensor: of the sizes given as ints, or of the values of a sequence."""
        if not args or all(isinstance(size, int) and not isinstance(size, bool) for size in args):
            return _C._functions.empty(args or (0,), dtype=cls.dtype)
        if len(args) > 1:
            raise TypeError(f"{cls.__name__}(): expected sizes or one sequence, got {len(args)} arguments")
        return _from(cls, args[0])

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor) and value.dtype == cls.dtype and value.device.type == "cpu"

    def __repr__(cls) -> str:
        return f"<class 'flambeau.{cls.__name__}'>"


def _from(cls: TensorType, data: Any) -> Tensor:
    from flambeau import Size

    if isinstance(data, Size):
        return _C._functions.empty(data, dtype=cls.dtype)
    if isinstance(data, Tensor):
        if not isinstance(data, cls):
            raise TypeError(
                f"{cls.__name__}(): expected a tensor of {cls.dtype} on the cpu, "
                f"got {data.dtype} on {data.device}"
            )
        return data.detach()
    return tensor(data, dtype=cls.dtype)


def _made() -> dict[str, TensorType]:
    return {
        f"{stem}Tensor": TensorType(
            f"{stem}Tensor", (), {"dtype": getattr(_C, name), "__module__": "flambeau"}
        )
        for name, stem in NAMES.items()
        if not stem.startswith("Complex")
    }


TYPES = _made()
globals().update(TYPES)


def dtype_of(named: Any) -> Any:
    """Return the dtype that `FloatTensor`, "torch.FloatTensor" or a dtype itself means."""
    if isinstance(named, TensorType):
        return named.dtype
    if not isinstance(named, str):
        return named
    stem = named.rpartition(".")[2].removesuffix("Tensor")
    found: Sequence[str] = [name for name, known in NAMES.items() if known == stem]
    if not found or not named.endswith("Tensor"):
        raise ValueError(f"invalid type: expected the name of a type such as 'FloatTensor', got {named!r}")
    return getattr(_C, found[0])


def set_default_tensor_type(t: Any) -> None:
    """Make the dtype of a type of tensors the default one: `set_default_tensor_type(DoubleTensor)`."""
    _C.set_default_dtype(dtype_of(t))


__all__ = [*TYPES, "set_default_tensor_type"]
