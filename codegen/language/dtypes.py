"""The dtypes in C++: one row per enumerator of c10::ScalarType, in its order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DType:
    """The properties of a dtype that generated C++ needs."""

    name: str  # the enumerator
    category: str  # of `dtypes:`; "": accepted by no operator that is generated
    compute: str = ""  # the type that loops compute in; "": there are no loops
    is_widened: bool = False  # the compute type is that of another dtype
    device: str = ""  # the type in memory for device code, if not the compute type


TABLE = (
    DType("Bool", "bool", "bool", device="StoredBool"),
    DType("UInt8", "integral", "uint8_t"),
    DType("Int8", "integral", "int8_t"),
    DType("Int16", "integral", "int16_t"),
    DType("Int32", "integral", "int32_t"),
    DType("Int64", "integral", "int64_t"),
    DType("Float16", "floating", "float", True, "Half"),
    DType("BFloat16", "floating", "float", True, "BFloat16"),
    DType("Float32", "floating", "float"),
    DType("Float64", "floating", "double"),
    DType("Complex64", "complex", "complex<float>"),
    DType("Complex128", "complex", "complex<double>"),
    DType("UInt64", "integral", "uint64_t"),
    DType("UInt16", "integral", "int32_t", True, "uint16_t"),
    DType("UInt32", "integral", "int64_t", True, "uint32_t"),
    DType("Complex32", "complex", "complex<float>", True),
    DType("Float8E5M2", "floating"),
    DType("Float8E4M3FN", "floating"),
    DType("Float8E5M2FNUZ", "floating"),
    DType("Float8E4M3FNUZ", "floating"),
    DType("Float8E8M0FNU", "floating"),
    DType("Float4E2M1FNx2", ""),
)
NUM_COMPUTED = 13  # c10::kNumComputeTypes: tables of loops have an entry for each of the first ones

_SIZES = {
    "bool": 1, "uint8_t": 1, "int8_t": 1, "int16_t": 2, "int32_t": 4, "int64_t": 8, "uint64_t": 8, "float": 4,
    "double": 8, "complex<float>": 8, "complex<double>": 16,
}  # fmt: skip

COMPUTED = tuple(row.name for row in TABLE[:NUM_COMPUTED])
WITH_LOOPS = tuple(row.name for row in TABLE if row.compute)
OWN_TYPES = {row.name: row.compute for row in TABLE if row.compute and not row.is_widened}
COMPUTE_TYPES = {row.name: row.compute for row in TABLE if row.compute}
DEVICE_TYPES = {row.name: row.device or OWN_TYPES.get(row.name, "") for row in TABLE if row.compute}


def of_categories(categories: Iterable[str]) -> tuple[str, ...]:
    """Return the dtypes of some categories that loops exist for."""
    chosen = set(categories)
    return tuple(row.name for row in TABLE if row.category in chosen and row.compute)


def mask(categories: Iterable[str]) -> str:
    """Spell the set of the dtypes of some categories: bit i is enumerator i."""
    chosen = set(categories)
    return hex(sum(1 << i for i, row in enumerate(TABLE) if row.category in chosen))


def sizes(types: Iterable[str]) -> str:
    """Spell the sizes in bytes of C++ types."""
    return f"{{{', '.join(str(_SIZES[type_]) for type_ in types)}}}"
