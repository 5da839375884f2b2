"""Short forms of dtypes and sizes, for readable code."""

from __future__ import annotations

from typing import Any

_SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "complex32": "c32",
    "complex64": "c64", "complex128": "c128", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "bool": "b8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip


def of_tensor(value: Any, stride: bool = False, device: bool = False) -> str:
    """Write dtype and sizes of a tensor, such as ``f32[2, 3]``, or "" for other values.

    Args:
        value: a tensor, or an object with `dtype` and `shape`.
        stride: add its strides.
        device: add its device.
    """
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return ""
    name = str(dtype).rpartition(".")[2]
    text = f"{_SHORT.get(name, name)}[{', '.join(map(str, shape))}]"
    if stride:
        strides = value.stride() if callable(getattr(value, "stride", None)) else value.stride
        text += f"[{', '.join(map(str, strides))}]"
    return f"{text}{value.device}" if device and hasattr(value, "device") else text
