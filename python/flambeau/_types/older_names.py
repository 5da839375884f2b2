"""The older names of types of tensors, as `x.type()` gives and takes them: "FloatTensor" is float32."""

from __future__ import annotations

from typing import Any

from flambeau import _C

NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "uint8": "Byte",
    "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool",
    "complex32": "ComplexHalf", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
    "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
    "float8_e5m2": "Float8_e5m2", "float8_e4m3fn": "Float8_e4m3fn", "float8_e5m2fnuz": "Float8_e5m2fnuz",
    "float8_e4m3fnuz": "Float8_e4m3fnuz", "float8_e8m0fnu": "Float8_e8m0fnu",
    "float4_e2m1fn_x2": "Float4_e2m1fn_x2",
}  # fmt: skip


def dtype_of(named: Any) -> Any:
    """Return the dtype that `FloatTensor`, "torch.FloatTensor" or a dtype itself means."""
    if isinstance(named, type):
        return getattr(named, "dtype", named)
    if not isinstance(named, str):
        return named
    stem = named.rpartition(".")[2].removesuffix("Tensor")
    found = [name for name, known in NAMES.items() if known == stem]
    if not found or not named.endswith("Tensor"):
        raise ValueError(
            f"type: invalid type: expected the name of a tensor type such as 'FloatTensor', got {named!r}"
        )
    return getattr(_C, found[0])
