"""Properties of the C++ targets: an edit stays within its family, loops become SIMD, every kind is there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from codegen.deriving import slots
from codegen.language import spelling
from codegen.language.inplace_views import is_view
from codegen.load import load
from codegen.model import BaseType, FormKind, Model, Number, Pointwise, Position, Prim, Var
from codegen.targets import emit_all
from codegen.writing.body_spelling import body_of
from codegen.writing.loop_spelling import pointwise_loop
from codegen.writing.scalar_spelling import ScalarSpelling

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FIXTURE = HERE / "fixture"


def model_of(native: str, folder: Path) -> Model:
    """Load the fixture with another native_functions.yaml."""
    shutil.copytree(FIXTURE, folder, dirs_exist_ok=True)
    (folder / "native_functions.yaml").write_text(native)
    model, found = load(folder / "native_functions.yaml", folder / "derivatives.yaml", folder)
    assert not found and model is not None
    return model


@pytest.fixture(scope="module")
def native() -> str:
    return (FIXTURE / "native_functions.yaml").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fixture")


@pytest.fixture(scope="module")
def outputs(native: str, folder: Path) -> dict[str, str]:
    return emit_all(model_of(native, folder))


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}


def test_an_edited_formula_changes_one_family(native: str, outputs: dict[str, str], folder: Path):
    assert "self * sigmoid(self)" in native
    edited = native.replace("self * sigmoid(self)", "self * sigmoid(2 * self)")
    files = changed(outputs, emit_all(model_of(edited, folder)))
    compiled = {p for p in files if p.endswith((".h", ".cpp", ".cu"))} - {
        "cells/loop_cells.h"
    }  # for programs
    assert "cpu/activation_loops.cpp" in compiled and "cuda/activation.cu" in compiled
    assert {re.split(r"[/_.]", p)[1] for p in compiled} == {"activation"}


def test_an_edited_reduction_changes_its_loops_alone(native: str, outputs: dict[str, str], folder: Path):
    edited = native.replace("finish: log(acc) + m", "finish: m + log(acc)")
    assert edited != native
    files = changed(outputs, emit_all(model_of(edited, folder)))
    compiled = {p for p in files if p.endswith((".h", ".cpp", ".cu"))}
    loops = {p for p in compiled if p.startswith("cpu/reduction_loops")}
    assert len(loops) == 1, "one file of the family holds the operator"
    assert compiled - loops == {"cuda/reduction.cu"}


def loop(model: Model, name: str, device: bool = False):
    op = next(op for op in model.operators if op.name == name)
    assert isinstance(op.body, Pointwise)
    case, expr = op.body.cases[0]
    return pointwise_loop(op, case, expr, model.primitives, device)


def test_equal_parts_are_computed_once(native: str, tmp_path: Path):
    edited = native.replace("self * sigmoid(self)", "sigmoid(self) * sigmoid(self) + sigmoid(self)")
    decl = loop(model_of(edited, tmp_path), "silu")
    assert sum("sigmoid" in line for line in decl.lines) == 1
    assert "sigmoid" not in decl.result


def test_half_types_run_the_float_loop(native: str, tmp_path: Path):
    model = model_of(native, tmp_path)
    assert [e for e in loop(model, "silu").table if e != "nullptr"] == [
        "&silu_loop<float>",
        "&silu_loop<double>",
    ]
    launchers = [e for e in loop(model, "silu", device=True).table if e != "nullptr"]
    assert launchers[0] == "&launch_pointwise<silu_cell<float>, Half>" and len(launchers) == 4


def test_real_parts_of_complex_values_keep_their_type(native: str, tmp_path: Path):
    rows = model_of(native, tmp_path).primitives
    place = Position("", 1, 1)
    x = Var("x", BaseType("Tensor"), place)
    size = Prim("abs", (x,), place)
    one = Number(1, BaseType("int"), place)
    expr = Prim("where", (Prim("gt", (size, one), place), Prim("mul", (x, size), place), one), place)
    writer = ScalarSpelling(rows, {"x": "x"}, device=False)
    # Complex numbers have no order; products with one are complex.
    assert writer.write(expr) == "T(vec::where((v0 > real_t<T>(1)), T((x * T(v0))), T(1)))"
    assert writer.lines == ["const auto v0 = vec::abs(x);"]


CHOICE = """
# ==== choice ====
- func: choice(Tensor self, int n) -> Tensor
  family: choice
  composite: COMPOSITE
  doc: One of two.
  test: {samples: ["t(2), 1", "t(2), -1"], reference: "self"}

- func: joined(Tensor[] tensors, int n) -> Tensor
  family: choice
  composite: exp(tensors[n])
  doc: One of them.
  test: {samples: ["[t(2)], 0", "[t(2), t(2)], 1"], reference: "tensors[n]"}
"""


def body_of_choice(native: str, composite: str, folder: Path) -> str:
    edited = native.replace(
        "# ==== comparison", CHOICE.replace("COMPOSITE", composite).lstrip() + "\n# ==== comparison"
    )
    text = emit_all(model_of(edited, folder))["aten/choice_impl.cpp"]
    return text.partition("choice_composite(")[2].partition("{\n")[2].partition("\n}\n\n")[0]


def test_a_choice_on_top_is_written_as_statements(native: str, tmp_path: Path):
    body = body_of_choice(native, "exp(self) if n > 0 else neg(self)", tmp_path)
    assert body.splitlines() == [
        "if ((n > int64_t{0})) {",
        "return ops::exp::call(self);",
        "}",
        "return ops::neg::call(self);",
    ]


def test_a_choice_that_has_a_name_is_not_made_again(native: str, tmp_path: Path):
    inner = "(exp(self) if n > 0 else neg(self))"
    body = body_of_choice(native, f"{inner} if {inner}.dtype == self.dtype else self", tmp_path)
    assert body.count("ops::exp::call") == body.count("ops::neg::call") == 1
    assert "return shared0;" in body


def test_lists_of_tensors_are_not_displayed_in_conditional_expressions(native: str, tmp_path: Path):
    """AddressSanitizer of GCC 12 takes them for used after their scope where an element raises."""
    body = body_of_choice(native, "exp(joined([self, exp(self)], 1) if n > 0 else self)", tmp_path)
    assert "std::vector<Tensor>{" in body and "?" not in body
    assert "?" in body_of_choice(native, "exp(neg(self) if n > 0 else self)", tmp_path)


def test_arithmetic_of_ints_is_checked(native: str, tmp_path: Path):
    body = body_of_choice(native, "expand(self, [n + 1, -n * 2])", tmp_path)
    assert 'sum_of("choice", n, int64_t{1})' in body
    assert 'product_of("choice", product_of("choice", -1, n), int64_t{2})' in body


@pytest.mark.parametrize("family", ["activation", "arithmetic"])
def test_floating_loops_become_simd(family: str, outputs: dict[str, str], tmp_path: Path):
    """The compiler reports a vectorised loop for float and for double of each branch-free expression.

    Without FMA no function takes Lanes, which are vectors already.
    """
    source = tmp_path / "loops.cpp"
    source.write_text(outputs[f"cpu/{family}_loops.cpp"])
    flags = [
        "-std=c++20",
        "-O2",
        "-march=x86-64-v3",
        "-mno-fma",
        "-fopenmp-simd",
        "-fno-math-errno",
        "-fno-trapping-math",
    ]
    result = subprocess.run(
        [
            "g++",
            *flags,
            "-DFLAMBEAU_ISA=v3",
            f"-I{ROOT}",
            "-fno-ipa-icf",
            "-fopt-info-vec",
            "-c",
            str(source),
            "-o",
            "/dev/null",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    reports: dict[int, int] = {}
    for line in re.findall(r"loops\.cpp:(\d+):.*optimized: loop vectorized", result.stderr):
        reports[int(line)] = reports.get(int(line), 0) + 1
    lines = source.read_text().split("\n")
    pragmas = [n for n, text in enumerate(lines, 1) if text.startswith("#pragma omp simd")]
    assert pragmas
    for begin in pragmas:
        end = lines.index("}", begin)
        assert sum(reports.get(n, 0) for n in range(begin, end)) >= 2, lines[begin:end]


def test_the_user_interface_compiles(tmp_path: Path):
    program = tmp_path / "program.cpp"
    program.write_text(
        '#include "api/operators.h"\n'
        "using namespace flambeau;\n"
        "api::Tensor chain(const Tensor& a, api::Tensor b, Tensor& out) {\n"
        "  b.mul_(2).add_(a, 3);\n"
        "  api::add_out(out, a, b, 1);\n"
        "  const auto [values, indices] = b.transpose(0, 1).topk(2);\n"
        "  return api::gelu(values.add(1.5)).gt(indices);\n"
        "}\n"
    )
    subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-fsyntax-only",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{ROOT}",
            str(program),
        ],
        check=True,
    )


def test_functions_take_memory_for_what_they_write():
    """Each function behind a form begins with it, for every written argument; in-place views leave it out."""
    model, found = load(ROOT / "native_functions.yaml", ROOT / "derivatives.yaml", ROOT)
    assert not found and model is not None
    seen = 0
    for op, form in slots.forms(model.operators):
        written = [a for a in form.schema.args if a.alias is not None and a.alias.is_write]
        moves_nothing = form.kind is FormKind.INPLACE and is_view(op.schema)
        for suffix in set(slots.backends(op, form).values()) - {"autograd"}:
            lines = body_of(model, op, form, suffix).lines
            wanted = [] if moves_nothing else [f"make_writable({spelling.local(a.name)});" for a in written]
            assert list(lines[: len(wanted)]) == wanted, (form.name, suffix)
            seen += len(wanted)
    assert seen > 1000
