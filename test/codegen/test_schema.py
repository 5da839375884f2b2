"""The schema language: what is parsed prints back to the text that it came from."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from codegen.language.schema import SchemaError, default_fits, parse, show_schema, show_type
from codegen.model import Alias, BaseType, ListType, OptionalType
from codegen.source.diagnostics import Collector
from codegen.source.nodes import Mapping, Text, load_entries

SCHEMAS = [
    "relu(Tensor self) -> Tensor",
    "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
    "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values)"
    " -> (Tensor(a!) values, Tensor(b!) indices)",
    "index(Tensor self, Tensor?[] indices) -> Tensor",
    'conv(Tensor input, Tensor? bias=None, int[2] stride=1, str pad="a\\"b\'c", bool[3] mask=[]) -> ()',
    "__and__.Scalar(Tensor self, Scalar other) -> Tensor",
    "scale(float[]? factors, ScalarType d=long, float eps=1e-05, *, Layout? f=None) -> (Tensor, Tensor)",
    "_to_cpu(Tensor[] tensors) -> Tensor[]",
    "rename_(Tensor(a!) self, str[]? names) -> Tensor(a!)",
    "view(Tensor(a|b) self) -> Tensor(a|b)",
]


@pytest.mark.parametrize("text", SCHEMAS)
def test_prints_back(text: str):
    assert show_schema(parse(text).schema) == text


def test_parts():
    schema = parse(SCHEMAS[3]).schema
    assert (schema.name.base, schema.name.overload, schema.name.inplace) == ("max", "dim_max", False)
    assert [a.name for a in schema.args if a.is_out] == ["max", "max_values"]
    assert [a.name for a in schema.args if a.kwarg_only] == ["max", "max_values"]
    assert schema.args[3].alias == Alias(("a",), (), True)
    assert [r.name for r in schema.returns] == ["values", "indices"]


def test_optional_and_list_nest_in_the_order_written():
    args = parse("f(Tensor?[] a, int[2]? b) -> ()").schema.args
    assert args[0].type == ListType(OptionalType(BaseType("Tensor")))
    assert args[1].type == OptionalType(ListType(BaseType("int"), 2))
    assert show_type(args[1].type) == "int[2]?"


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("f(Tensor a", 10),
        ("f Tensor a) -> ()", 1),
        ("f() - Tensor", 4),
        ("f() -> Tensor x y", 16),
        ("1f() -> ()", 0),
    ],
)
def test_errors_know_their_offset(text: str, offset: int):
    with pytest.raises(SchemaError) as error:
        parse(text)
    assert error.value.offset == offset


@pytest.mark.parametrize(
    ("type_", "default", "fits"),
    [
        ("int", "1", True), ("int", "1.5", False), ("int", "None", False), ("int?", "None", True),
        ("float", "1", True), ("float", "1e-5", True), ("float", "inf", True), ("bool", "True", True),
        ("bool", "1", False), ("str", "'a'", True), ("str", "a", False), ("int[2]", "0", True),
        ("int[2]", "[0, 1]", True), ("int[2]", "[0, 1, 2]", False), ("int[]", "0", False),
        ("int[]", "[]", True), ("Scalar", "True", True), ("Scalar", "'a'", False),
        ("ScalarType", "float32", True), ("ScalarType", "flot32", False),
        ("MemoryFormat", "contiguous_format", True), ("Tensor", "1", False), ("Tensor?", "None", True),
    ],
)  # fmt: skip
def test_defaults(type_: str, default: str, fits: bool):
    arg = parse(f"f({type_} a) -> ()").schema.args[0]
    assert default_fits(arg.type, default) is fits


def pytorch_schemas() -> Path | None:
    """PyTorch's own file, inside the torch wheel."""
    found = importlib.util.find_spec("torchgen")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / "packaged/ATen/native/native_functions.yaml"


@pytest.mark.skipif(pytorch_schemas() is None, reason="torch, the oracle, is not installed here")
def test_pytorchs_own_schemas_print_back():
    path = pytorch_schemas()
    assert path is not None
    collector = Collector()
    nodes = load_entries(path, "native_functions.yaml", collector).entries
    assert not collector.sorted()
    assert len(nodes) == 2584  # PyTorch 2.13
    for node in nodes:
        assert isinstance(node, Mapping)
        text = node.get("func")
        assert isinstance(text, Text)
        parsed = parse(text.value)
        assert show_schema(parsed.schema) == text.value
        assert not parsed.problems
        for arg in parsed.schema.args:
            assert arg.default is None or default_fits(arg.type, arg.default), text.value
