"""Enumerations that the generator and the handwritten C++ both know: each is one table and one header."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from codegen.deriving.slots import SPARSE_KEY
from codegen.language import dtypes
from codegen.language.schema import DTYPE_NAMES, ENUMERATORS
from codegen.language.spelling import dtype, enumerator, memory_format
from codegen.model.enumerations import (
    AUTOCAST_DEVICES,
    CAST_POLICIES,
    ENUM_INTS,
    PYTHON_ENUM_DEFAULT,
    BatchMethod,
    BatchRole,
    DimKind,
)
from codegen.reading.keys import BACKENDS, DTYPE_RULES, ERRORS
from codegen.writing import python_spelling

ROOT = Path(__file__).parents[2]


def enumerators(header: str, name: str) -> list[str]:
    """Return the enumerators of a C++ enumeration, in order."""
    text = re.sub(r"//[^\n]*", "", (ROOT / header).read_text())
    body = re.search(rf"\benum (?:class )?{name}\b[^{{;]*\{{([^}}]*)\}}", text)
    assert body is not None, f"{header} has no enumeration {name}"
    return re.findall(r"\w+", re.sub(r"=[^,]*", "", body.group(1)))


def constant(header: str, name: str) -> str:
    found = re.search(rf"\b{name} = ([\w:]+);", (ROOT / header).read_text())
    assert found is not None, f"{header} has no constant {name}"
    return found.group(1)


TRAITS = "aten/dispatch/operator_traits.h"
KINDS = {name + suffix for name in python_spelling.PARAM_KINDS.values() for suffix in ("", "List")}
# Header, enumeration, and all enumerators as the generator spells them.
SAME = [
    (TRAITS, "BatchMethod", [enumerator(method.value) for method in BatchMethod]),
    (TRAITS, "BatchRole", [enumerator(role.value) for role in BatchRole]),
    (TRAITS, "DimKind", [f"k{enumerator(kind.value)}" for kind in DimKind]),
    ("aten/core/pointwise_op.h", "DTypeRule", [enumerator(rule) for rule in DTYPE_RULES]),
    ("aten/dispatch/cast_policy.h", "CastPolicy", ["None", *map(enumerator, CAST_POLICIES)]),
    ("python/csrc/arg_parser.h", "ParamKind", [kind for kind in python_spelling.ACCESSORS if kind in KINDS]),
    ("c10/core/scalar_type_id.h", "ScalarType", [*(row.name for row in dtypes.TABLE), "Undefined"]),
    (
        "c10/core/device.h",
        "MemoryFormat",
        [memory_format(name).rpartition(":")[2] for name in ENUMERATORS["MemoryFormat"]],
    ),
]
# Header, enumeration, and those enumerators that the generator spells.
SOME = [
    ("c10/core/check.h", "ErrorKind", [error.removesuffix("Error") for error in ERRORS]),
    ("c10/core/dispatch_key.h", "DispatchKey", [*BACKENDS, "Autograd", SPARSE_KEY]),
    ("c10/core/device.h", "Layout", [enumerator(name) for name in ENUMERATORS["Layout"]]),
    ("c10/core/device.h", "DeviceType", AUTOCAST_DEVICES),
]


# Kinds of arguments that only operators of programs in C++ have.
OF_PROGRAMS = {"ParamKind": ("StringList", "CustomObject")}


@pytest.mark.parametrize(("header", "name", "ours"), SAME, ids=[name for _, name, _ in SAME])
def test_generator_and_header_have_the_same_enumerators(header: str, name: str, ours: list[str]):
    theirs = [kind for kind in enumerators(header, name) if kind not in OF_PROGRAMS.get(name, ())]
    if name in ("ScalarType", "ParamKind"):
        assert theirs == list(ours), "tables and masks count on the order"
    assert sorted(theirs) == sorted(ours)


@pytest.mark.parametrize(("header", "name", "ours"), SOME, ids=[name for _, name, _ in SOME])
def test_what_the_generator_spells_is_in_the_header(header: str, name: str, ours: list[str]):
    assert set(ours) <= set(enumerators(header, name))


def test_counts_of_dtypes():
    header = "c10/core/scalar_type_id.h"
    assert int(constant(header, "kNumScalarTypes")) == len(dtypes.TABLE)
    assert int(constant(header, "kNumComputeTypes")) == dtypes.NUM_COMPUTED == len(dtypes.COMPUTED)


def test_every_name_of_a_dtype_has_a_row():
    """`float8_e5m2` once became `ScalarType::Float8_e5m8_e5m2`."""
    assert {dtype(name) for name in DTYPE_NAMES} == {f"ScalarType::{row.name}" for row in dtypes.TABLE}


def test_the_key_of_sparse_tensors():
    assert constant("c10/core/dispatch_key.h", "kSparseKey") == f"DispatchKey::{SPARSE_KEY}"


def test_reductions_have_the_numbers_of_the_package():
    """`reduction=Mean` of a schema is what `nn.functional` passes for reduction="mean"."""
    text = (ROOT / "python" / "flambeau" / "nn" / "functional" / "_reduction.py").read_text()
    found = re.search(r"^_REDUCTIONS = (\{.*\})$", text, re.MULTILINE)
    assert found is not None
    numbers = {name.lower(): number for name, number in ENUM_INTS.items()}
    assert ast.literal_eval(found.group(1)) == numbers | {"none": int(PYTHON_ENUM_DEFAULT)}


def test_comparisons_are_in_the_order_of_python():
    opcodes = re.findall(r"#define Py_(LT|LE|EQ|NE|GT|GE) (\d)", python_header("object.h"))
    order = [name.lower() for name, _ in sorted(opcodes, key=lambda pair: pair[1])]
    assert list(python_spelling.COMPARISON_ORDER) == order


def python_header(name: str) -> str:
    import sysconfig

    path = Path(sysconfig.get_path("include")) / name
    if not path.is_file():
        pytest.skip("Python's headers are not installed")
    return path.read_text()


def test_a_missing_enumerator_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "a.h").write_text("enum class A : uint8_t {\n  One,  // {not, these}\n  Two = 4,\n};\n")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert enumerators("a.h", "A") == ["One", "Two"]


def test_integers_that_schemas_write_by_name() -> None:
    text = (ROOT / "python/csrc/boxed_schema.h").read_text()
    table = re.search(r"kNamedIntegers\[\] = \{(.*?)\};", text, re.S)
    assert table is not None
    assert {name: int(value) for name, value in re.findall(r'\{"(\w+)", (\d+)\}', table[1])} == ENUM_INTS
