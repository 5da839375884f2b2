"""What the targets emit for the fixture: the recorded text, and C++ that compiles without a warning.

After an intended change of a template or target: `python test/codegen/test_emitted.py` records anew, and the
review sees the difference.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GOLDEN = HERE / "golden"
# A pointwise family with a switch, a kernel family: together every kind of output.
STEMS = ("activation", "softmax")


@cache
def emitted() -> dict[str, str]:
    sys.path.insert(0, str(ROOT))
    from codegen.load import load
    from codegen.targets import emit_all

    fixture = HERE / "fixture"
    model, found = load(fixture / "native_functions.yaml", fixture / "derivatives.yaml", fixture)
    assert not found and model is not None
    return emit_all(model)


def selected() -> dict[str, str]:
    return {path: text for path, text in emitted().items() if any(stem in path for stem in STEMS)}


def golden_path(path: str) -> Path:
    """Recorded files end in .txt, so that no tool takes them for sources."""
    return GOLDEN / f"{path}.txt"


def test_the_recorded_files_are_those_emitted():
    recorded = {p.relative_to(GOLDEN).as_posix().removesuffix(".txt") for p in GOLDEN.rglob("*.txt")}
    assert recorded == selected().keys()


@pytest.mark.parametrize("path", sorted(selected()))
def test_text_is_as_recorded(path: str):
    assert selected()[path] == golden_path(path).read_text()


def test_text_ends_with_one_newline_and_has_no_trailing_blanks():
    for path, text in emitted().items():
        assert text.endswith("\n") and not text.endswith("\n\n"), path
        lines = text.split("\n")
        assert not [i for i, line in enumerate(lines, 1) if line != line.rstrip()], path


def test_no_output_names_a_place_or_a_date():
    for path, text in emitted().items():
        assert str(ROOT) not in text and str(Path.home()) not in text, path


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emitted")
    for path, text in emitted().items():
        target = folder / "torchgen_out" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder


def compile_one(folder: Path, path: str) -> str:
    """Check the syntax of one file; return the compiler's complaints."""
    compiler = shutil.which("g++")
    assert compiler, "the tests need the compiler that the build needs"
    flags = [
        "-std=c++20",
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fopenmp-simd",
        "-DFLAMBEAU_ISA=x86_64",
    ]
    command = [compiler, *flags, f"-I{folder}", f"-I{ROOT}", str(folder / "torchgen_out" / path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if result.returncode == 0 else f"{path}:\n{result.stderr}"


def test_emitted_cpp_compiles_without_warnings(tree: Path):
    # Bindings need Python's headers and CUDA needs nvcc: the build and `make cuda-check` compile those.
    paths = [p for p in emitted() if p.endswith(".cpp") and not p.startswith("python/")]
    with ThreadPoolExecutor(2) as pool:
        complaints = [c for c in pool.map(lambda path: compile_one(tree, path), paths) if c]
    assert not complaints, "\n".join(complaints)


HOSTILE = """
- func: hostile(Tensor self, Tensor data, Scalar n, Scalar i, Scalar params, Scalar errors) -> Tensor
  family: activation
  pointwise: (self + data) * n + i - params * errors
  doc: Arguments called what generated loops call their own variables.
- func: hostile_sum(Tensor self, Scalar n, Scalar kept, Scalar elements) -> Tensor
  family: activation
  reduce: {map: self * n, combine: sum, finish: acc + kept * elements}
  doc: The same for a reduction.
  test: {samples: ["t(2), 1, 2, 3", "t(0), 1, 2, 3"], reference: "np.sum(self * n) + kept * elements"}
"""


def test_no_argument_hides_a_variable_of_the_loop(tmp_path: Path):
    from codegen.load import load
    from codegen.targets import loops

    fixture = HERE / "fixture"
    native = tmp_path / "native_functions.yaml"
    native.write_text((fixture / "native_functions.yaml").read_text() + HOSTILE)
    given = (fixture / "derivatives.yaml").read_text() + "- name: hostile_sum\n  self: none\n"
    (tmp_path / "derivatives.yaml").write_text(given)
    model, found = load(native, tmp_path / "derivatives.yaml", fixture)
    assert not found and model is not None
    texts = [f.text for f in loops.emit(model) if "hostile" in f.text]
    assert texts
    (tmp_path / "torchgen_out").mkdir()
    for text in texts:
        (tmp_path / "torchgen_out" / "loops.cpp").write_text(text)
        assert not compile_one(tmp_path, "loops.cpp")


LISTS = """
- func: _listed(Tensor self, float[] scales, bool[] kept, str name, Tensor[] others, float[]? more) -> Tensor
  family: activation
  composite: |
    middle = scales[1:-1]
    both = middle + [scales[0]] + (value(more)[0:1] if has_value(more) else [])
    names = [name] * 2
    if self.is_meta or kept[0] or not self.is_cpu or names[1] == "none":
        return others[-1] * scales[-1]
    if len(both) > 4:
        first = others[0]
    elif len(both) > 3:
        first = others[1]
    else:
        first = self
    for scale, other in zip(both, [first] + others[1:]):
        if scale > middle[0]:
            return other * scale
    return self * float(len(kept[1:]))
  doc: Elements and slices of lists of every type.
"""


def emit_fixture_with(tmp_path: Path, entries: str) -> dict[str, str]:
    from codegen.load import load
    from codegen.targets import emit_all

    fixture = HERE / "fixture"
    native = tmp_path / "native_functions.yaml"
    native.write_text((fixture / "native_functions.yaml").read_text() + entries)
    model, found = load(native, fixture / "derivatives.yaml", fixture)
    assert not found and model is not None, found
    return emit_all(model)


def test_lists_of_every_type_have_elements_and_slices(tmp_path: Path):
    for path, text in emit_fixture_with(tmp_path, LISTS).items():
        target = tmp_path / "torchgen_out" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    assert not compile_one(tmp_path, "aten/activation_impl.cpp")


def test_a_variable_of_several_branches_is_declared_once(tmp_path: Path):
    text = emit_fixture_with(tmp_path, LISTS)["aten/activation_impl.cpp"]
    assert text.count("Tensor first{};") == 1 and len(re.findall(r"\bfirst = ", text)) == 3


def test_a_body_in_python_takes_the_same_elements(tmp_path: Path):
    text = emit_fixture_with(tmp_path, LISTS)["lowering/activation.py"]
    scope: dict[str, Any] = {}
    exec(compile(text, "lowering", "exec"), scope)  # noqa: S102  what the generator emits
    host = SimpleNamespace(has_value=lambda x: x is not None, value=lambda x: x, len=len, float=float)
    ops = {"mul.Scalar": lambda x, y: (x, y)}

    def run(is_meta: bool, scales: list[float], more: list[float] | None = None) -> Any:
        tensor = SimpleNamespace(is_meta=is_meta, is_cpu=not is_meta)
        return scope["lower__listed"](
            ops, host, tensor, scales, [False, True, True], "mean", ["a", "b", "c", "d"], more
        )

    assert run(True, [1.0, 2.0, 3.0, 4.0]) == ("d", 4.0)
    assert run(False, [1.0, 2.0, 3.0, 4.0]) == ("b", 3.0)
    assert run(False, [1.0, 5.0, 4.0], [9.0]) == ("c", 9.0)


FLOPS = """
- func: joined(Tensor self, Tensor? bias=None, int[2] stride=[3, 1], *, int n=2) -> (Tensor values, Tensor b)
  family: activation
  variants: [function]
  flops:
    counter: prod(values.shape) * stride[0] * n + (bias.numel if bias.defined else 0)
    profiler: self.ndim + sum([size for size in self.shape if size > 1])
    as: silu
  composite: exp(self), exp(self)
  doc: {summary: Joined., example: ">>> 1\\n1"}
  test: {samples: ["t(2, 3)", "t(0)"], no_reference: it is never built}

- func: scaled(Tensor self, Tensor other) -> Tensor
  family: activation
  variants: [function, method, inplace, out]
  scalars: [[other], [self]]
  pointwise: self * other
  flops: {profiler: self.numel}
  doc: {summary: Scaled., example: ">>> 1\\n1"}
"""


def test_operations_are_functions_of_sizes(tmp_path: Path):
    text = emit_fixture_with(tmp_path, FLOPS)["package/utils/_flops.py"]
    scope: dict[str, Any] = {}
    exec(compile(text, "flops", "exec"), scope)  # noqa: S102  what the generator emits
    operator, formula = scope["COUNTED"]["joined"]
    assert (operator, scope["COMPOSITES"]) == ("silu", {"joined": "silu"})
    assert formula((4, 5), out_shape=((2, 2), (1,))) == 4 * 3 * 2
    assert formula((4, 5), (7,), [1, 1], n=5, out_shape=((2, 2), (1,))) == 4 * 5 + 7
    assert scope["PROFILED"]["joined"]((4, 1, 5), None, [1, 1], 2) == 3 + 9
    # A number has no size, and PyTorch shows nothing for in-place forms.
    profiled = {name: row for name, row in scope["PROFILED"].items() if name.startswith("scaled")}
    assert profiled.keys() == {"scaled", "scaled.Scalar", "scaled.out", "scaled.Scalar_out"} | {
        "scaled_",
        "scaled_.Scalar",
    }
    assert profiled["scaled_"] is None and profiled["scaled.out"]((2, 3), (), (9,)) == 6
    assert "scaled" not in scope["COUNTED"]


def test_emitted_python_is_python(tree: Path):
    for path, text in emitted().items():
        if path.endswith((".py", ".pyi")):
            compile(text, path, "exec")


if __name__ == "__main__":
    shutil.rmtree(GOLDEN, ignore_errors=True)
    for name, content in selected().items():
        golden_path(name).parent.mkdir(parents=True, exist_ok=True)
        golden_path(name).write_text(content)
    print(f"recorded {len(selected())} files in {GOLDEN.relative_to(ROOT)}")
