"""Loading: derived forms, defaults, dtypes, derivatives, and what survives a faulty neighbour."""

from __future__ import annotations

from pathlib import Path

from codegen.language.schema import show_schema
from codegen.load import load
from codegen.model import FormKind, Kernels, Kind, Model, Operator, Reduce

FIXTURE = Path(__file__).parent / "fixture"
NATIVE, DERIVATIVES = FIXTURE / "native_functions.yaml", FIXTURE / "derivatives.yaml"


def fixture() -> Model:
    model, found = load(NATIVE, DERIVATIVES, FIXTURE)
    assert not found and model is not None
    return model


def operator(name: str) -> Operator:
    return next(op for op in fixture().operators if op.name == name)


def schemas(name: str) -> list[str]:
    return [show_schema(form.schema) for form in operator(name).forms]


def test_forms_of_a_binary_operator():
    assert schemas("mul.Tensor") == [
        "mul.Tensor(Tensor self, Tensor other) -> Tensor",
        "mul.Scalar(Tensor self, Scalar other) -> Tensor",
        "mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        "mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
        "mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        "mul.Scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)",
    ]


def test_forms_with_several_results():
    assert schemas("topk")[1] == (
        "topk.out(Tensor self, int k, int dim=-1, *, Tensor(a!) values, Tensor(b!) indices)"
        " -> (Tensor(a!) values, Tensor(b!) indices)"
    )


def test_out_of_an_overload_keeps_its_name():
    assert [f.name for f in operator("softmax.int").forms] == ["softmax.int", "softmax.int_out"]


VIEWS = """
- func: clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
  family: copy
  composite: self
  doc: Copies.
  test: {samples: ["t(2)", "t()"], reference: "self"}
- func: turn(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
  family: view
  variants: [function, copy]
  view: transpose(self, dim0, dim1)
  doc: Transposes.
  test: {samples: ["t(2, 3), 0, 1", "t(2, 2), -1, 0"], reference: "self.T"}
"""


def test_a_view_gives_its_copy(tmp_path: Path):
    native, derivatives = tmp_path / "native.yaml", tmp_path / "derivatives.yaml"
    native.write_text(VIEWS)
    derivatives.write_text("- name: turn\n  self: none\n")
    model, found = load(native, derivatives)
    assert not found and model is not None
    op, form = model.form("turn_copy")
    assert show_schema(form.schema) == "turn_copy(Tensor self, int dim0, int dim1) -> Tensor"
    assert op.kind is Kind.COMPOSITE
    assert [f.name for f in op.forms] == ["turn_copy", "turn_copy.out"]
    assert op.test.samples == model.form("turn")[0].test.samples


def test_an_in_place_schema_is_its_own_form():
    forms = operator("fill_.Scalar").forms
    assert [(f.name, f.kind, f.is_function, f.is_method) for f in forms] == [
        ("fill_.Scalar", FormKind.INPLACE, False, True)
    ]


def test_default_variants_follow_from_self():
    zeros, neg = operator("zeros").forms[0], operator("neg").forms[0]
    assert (zeros.is_function, zeros.is_method) == (True, False)
    assert (neg.is_function, neg.is_method) == (True, True)


def test_every_kind_is_in_the_fixture():
    assert {op.kind for op in fixture().operators} == set(Kind)


def test_dtypes_follow_from_the_expression():
    assert operator("add.Tensor").dtype.allowed == ("bool", "integral", "floating", "complex")
    assert operator("gt.Tensor").dtype.allowed == ("bool", "integral", "floating")
    assert operator("exp").dtype.allowed == ("bool", "integral", "floating", "complex")
    assert operator("silu").dtype.allowed == ("floating",)


def test_reduce_finds_its_control_arguments():
    body = operator("sum.dim_IntList").body
    assert isinstance(body, Reduce)
    assert (body.dim, body.keepdim, body.dtype, body.empty) == ("dim", "keepdim", "dtype", "identity")
    assert body.params == ()


def test_dynamic_shape_has_its_reason():
    body = operator("nonzero").body
    assert isinstance(body, Kernels)
    assert body.shape is None and body.dynamic is not None and "rows" in body.dynamic


def test_forward_rules():
    derivative = operator("sum.dim_IntList").derivative
    assert derivative is not None and derivative.forward == (("result", "linear"),)


def test_equal_input_gives_equal_models():
    assert fixture() == fixture()


def test_keep_going_drops_the_faulty_and_its_users(tmp_path: Path):
    native = tmp_path / "native_functions.yaml"
    native.write_text(NATIVE.read_text().replace("pointwise: self * other", "pointwise: self * othr"))
    model, found = load(native, DERIVATIVES, FIXTURE, keep_going=True)
    assert [d.code for d in found] == ["FB0302"]
    assert model is not None
    names = {op.name for op in model.operators}
    assert "mul.Tensor" not in names  # faulty
    assert "sum_of_squares" not in names  # its composite multiplies
    assert "softmax.int" not in names  # its gradient multiplies
    assert {"exp", "transpose.int", "sum.dim_IntList"} <= names
