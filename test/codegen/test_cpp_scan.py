"""The quick reader of handwritten C++."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.reading.cpp_scan import definitions, normal_type, parameter_types
from codegen.source.memory import Memory

SOURCE = """\
#include "aten/core/tensor.h"

namespace flambeau::ops {
namespace {

void hidden_cpu(const Tensor& self) {
}

}  // namespace

static void local_cpu(const Tensor& self) {
}

void declared_cpu(const Tensor& self);

template <typename T>
inline void templated_cpu(T* out, std::pair<int, int> p = {1, 2}) {
  if (out) {
  }
}

std::tuple<Tensor, Tensor> several_cpu(const c10::Scalar & value,  // why
                                       const int64_t dim, ArrayRef<int64_t>, bool /*unused*/) {
  return helper(value);
}

}  // namespace flambeau::ops

namespace flambeau::view {
ViewGeometry t(const Tensor& self) { return {}; }
}  // namespace flambeau::view
"""


def test_definitions_at_namespace_scope(tmp_path: Path):
    path = tmp_path / "a.cpp"
    path.write_text(SOURCE)
    found = {d.name: d for d in definitions(path, "a.cpp", Memory("test", (), path.parent))}
    assert found.keys() == {"templated_cpu", "several_cpu", "t"}
    several = found["several_cpu"]
    assert several.namespace == "flambeau::ops"
    assert several.returns == "std::tuple<Tensor,Tensor>"
    assert several.types == ("const Scalar&", "int64_t", "IntArrayRef", "bool")
    assert (several.position.line, several.position.column) == (22, 28)
    assert found["t"].namespace == "flambeau::view"


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("", []),
        ("const Tensor& self, int64_t dim = 0", ["const Tensor&", "int64_t"]),
        ("const std::optional<IntArrayRef>& dim", ["const std::optional<IntArrayRef>&"]),
        ("GeneratorImpl* generator, TensorList", ["GeneratorImpl*", "TensorList"]),
        ("std::array<bool, 3> mask", ["std::array<bool,3>"]),
        ("OutSpec *out", ["OutSpec*"]),
        ("const char* name", ["const char*"]),
    ],
)
def test_parameter_types(text: str, types: list[str]):
    assert list(parameter_types(text)) == types


def test_equal_types_are_spelled_equally():
    assert normal_type("flambeau::c10::ArrayRef< Tensor >") == "TensorList"
    assert normal_type("const  bool") == "bool"
    assert normal_type("const Scalar &") == "const Scalar&"
