"""Rows of codegen/host_functions.yaml: their types, and that every function exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codegen.language.host_functions import HostForm, host_functions
from codegen.language.overloads import BOOL, DEVICE, DTYPE, FLOAT, INT, INTS, SCALAR, STR, TENSOR, AnyType
from codegen.model import BaseType, ListType, OptionalType, TupleType

ROOT = Path(__file__).parents[2]
FLOATS = ListType(FLOAT)
NOT_TAKEN: list[tuple[str, list[AnyType]]] = [
    ("len", [INT]),
    ("len", [OptionalType(INTS)]),
    ("min", [INT]),
    ("min", [INT, BOOL]),
    ("min", [ListType(BaseType("Scalar"))]),
    ("abs", [SCALAR]),
    ("sum", [ListType(TENSOR)]),
    ("range", [FLOAT]),
    ("value", [INT]),
    ("conj", [BOOL]),
    ("float", [STR]),
    ("wrap", [INT, FLOAT]),
    ("broadcast", [INTS, INT]),
    ("has_value", [TupleType((INT, INT))]),
    ("has_view", [INTS, INTS]),
    ("extent", [INTS]),
    ("ints", [INTS]),
    ("in_graph", [ListType(TENSOR)]),
]
TAKEN: list[tuple[str, list[AnyType], AnyType]] = [
    ("len", [ListType(TENSOR)], INT),
    ("len", [ListType(INT, 2)], INT),
    ("min", [INT, INT, INT], INT),
    ("max", [INT, FLOAT], FLOAT),
    ("max", [FLOATS], FLOAT),
    ("abs", [FLOAT], FLOAT),
    ("prod", [INTS], INT),
    ("range", [INT, INT, INT], INTS),
    ("value", [OptionalType(STR)], STR),
    ("has_value", [OptionalType(INTS)], BOOL),
    ("conj", [SCALAR], SCALAR),
    ("int", [BOOL], INT),
    ("default_dtype", [], DTYPE),
    ("category", [SCALAR], STR),
    ("has_view", [TENSOR, INTS], BOOL),
    ("is_dense", [TENSOR], BOOL),
    ("in_graph", [TENSOR], BOOL),
    ("extent", [INTS, INTS], INT),
    ("infer_size", [INTS, INT], INTS),
    ("ints", [TENSOR], INTS),
    ("moved_dims", [INT, INTS, INTS], INTS),
    ("chain_order", [INTS], INTS),
    ("number_tensor", [SCALAR, DTYPE, DEVICE], TENSOR),
    ("number_tensor", [FLOAT, DTYPE], TENSOR),
]


@pytest.mark.parametrize(("name", "types", "result"), TAKEN)
def test_the_type_of_a_call(name: str, types: list[AnyType], result: AnyType):
    assert host_functions()[name].result(types) == result


@pytest.mark.parametrize(("name", "types"), NOT_TAKEN)
def test_other_types_are_refused(name: str, types: list[AnyType]):
    assert host_functions()[name].result(types) is None


def test_counts_of_arguments_follow_from_the_forms():
    counts = {name: (row.least, row.most) for name, row in host_functions().items()}
    assert counts["min"] == (1, None)
    assert counts["range"] == (1, 3)
    assert counts["default_dtype"] == (0, 0)


def test_every_row_has_its_function_in_cpp():
    header = (ROOT / "aten" / "core" / "host_expr.h").read_text()
    defined = set(re.findall(r"^(?:inline )?[\w:<>& ]+ [*&]?(\w+)\(", header, re.MULTILINE))
    missing = [row.name for row in host_functions().values() if row.cpp not in defined]
    assert not missing


def test_a_malformed_form_is_refused():
    for text in ("int", "int ->"):
        with pytest.raises(ValueError, match="expected 'types -> type'"):
            HostForm.of(text)
