"""How much an edit of one entry compiles: the generated C++ files that change, counted in compiler runs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from codegen.deriving.parts import divide
from codegen.load import load
from codegen.targets import emit_all

ROOT = Path(__file__).parents[2]
SETS = 3  # loops are compiled for as many instruction sets
LAYERS = ("c10", "aten", "api", "python/csrc")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def outputs(native: str, derivatives: str, folder: Path) -> dict[str, str]:
    (folder / "native_functions.yaml").write_text(native)
    (folder / "derivatives.yaml").write_text(derivatives)
    model, found = load(folder / "native_functions.yaml", folder / "derivatives.yaml")
    assert not found and model is not None
    return {path: text for path, text in emit_all(model).items() if path.endswith((".h", ".cpp", ".txt"))}


@cache
def specification() -> tuple[str, str]:
    return (ROOT / "native_functions.yaml").read_text(), (ROOT / "derivatives.yaml").read_text()


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return outputs(*specification(), tmp_path_factory.mktemp("before"))


@cache
def handwritten() -> dict[str, frozenset[str]]:
    """Include lines of each handwritten source and header, by its path in the repository."""
    paths = (p for layer in LAYERS for p in (ROOT / layer).rglob("*") if p.suffix in (".h", ".cpp"))
    return {str(p.relative_to(ROOT)): frozenset(INCLUDE.findall(p.read_text())) for p in paths}


def compiled(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Sources, generated or handwritten, that changed or include a changed header, directly or not."""
    edges = dict(handwritten())
    edges |= {f"torchgen_out/{path}": frozenset(INCLUDE.findall(text)) for path, text in after.items()}
    dirty = {f"torchgen_out/{p}" for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
    while more := {path for path, included in edges.items() if path not in dirty and included & dirty}:
        dirty |= more
    return {path for path in dirty if path.endswith(".cpp") and path in edges}


def compiler_runs(sources: set[str]) -> int:
    """How many runs `import flambeau` waits for: loops once per instruction set, every other source once.

    The C++ interface is a library of its own, which only extensions and programs in C++ load.
    """
    assert sources, "the edit changed nothing that is compiled"
    imported = [path for path in sources if not path.startswith("api/")]
    return sum(SETS if path.startswith("torchgen_out/cpu/") else 1 for path in imported)


MISH = "- func: mish(Tensor self) -> Tensor\n"
NEW_ENTRY = """\
- func: softplus_gap(Tensor self) -> Tensor
  family: activation
  variants: [function]
  pointwise: self - tanh(softplus(self))
  dtype: promote
  dtypes: [floating]
  doc: The element minus the hyperbolic tangent of its softplus.
  test: {self: [-8, 8], reference: "self - np.tanh(np.logaddexp(0, self))"}

"""

# kind of entry -> the file, the text before and after, and the most compiler runs.
EDITS = {
    "pointwise": (0, "pointwise: self * tanh(softplus(self))", "pointwise: tanh(softplus(self)) * self", 5),
    "reduction": (0, 'map: "0 if isnan(self) else self"', 'map: "self if self == self else 0"', 4),
    "composite": (
        0,
        "composite: _root_or_zero(var(self, dim, correction=correction, keepdim=keepdim))",
        "composite: sqrt(_root_or_zero(var(self, dim, correction=correction, keepdim=keepdim)))",
        2,
    ),
    "view": (0, "view: negate(self)", "view: conjugate(self)", 3),
    "kernels": (0, "shape: mm(self, mat2)", "shape: mm(mat2, self)", 4),
    "derivative": (1, "self: mm(grad, conj(t(mat2)))", "self: mm(grad, t(conj(mat2)))", 2),
    "signature": (
        0,
        "hardtanh(Tensor self, Scalar min_val=-1,",
        "hardtanh(Tensor self, Scalar min_val=-2,",
        7,
    ),
    "new entry": (0, MISH, NEW_ENTRY + MISH, 11),
}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edit_compiles_few_files(kind: str, before: dict[str, str], tmp_path: Path):
    index, old, new, most = EDITS[kind]
    texts = list(specification())
    assert texts[index].count(old) == 1, f"{kind}: choose another entry"
    texts[index] = texts[index].replace(old, new)
    assert compiler_runs(compiled(before, outputs(texts[0], texts[1], tmp_path))) <= most


def test_an_edit_of_documentation_compiles_nothing(before: dict[str, str], tmp_path: Path):
    native, derivatives = specification()
    old = "summary: Product of two matrices (n, k)"
    assert native.count(old) == 1, "choose another entry"
    after = outputs(native.replace(old, "summary: The product of two matrices (n, k)"), derivatives, tmp_path)
    texts = "package/_operator_texts.txt"
    assert before[texts] != after[texts]
    assert not compiled(before, after)


@pytest.mark.parametrize("kind", ["signature", "new entry"])
def test_signatures_leave_the_registry_and_the_binding_alone(
    kind: str, before: dict[str, str], tmp_path: Path
):
    """Both read tables that a file of each family offers, so only a new family compiles them."""
    index, old, new, _ = EDITS[kind]
    texts = list(specification())
    texts[index] = texts[index].replace(old, new)
    sources = compiled(before, outputs(texts[0], texts[1], tmp_path))
    assert any(path.startswith("torchgen_out/aten/activation_ops_") for path in sources)
    assert "torchgen_out/aten/registry.cpp" not in sources
    assert not {path for path in sources if path.startswith("python/")}


def test_the_registry_lists_each_file_of_tables_and_its_table_each_entry(before: dict[str, str]):
    found = ((re.fullmatch(r"aten/(\w+)_ops((?:_\d+)?)\.cpp", path), text) for path, text in before.items())
    tables = {match[1] + match[2]: text for match, text in found if match}
    assert re.findall(r"&generated::(\w+)_table,", before["aten/registry.cpp"]) == list(tables)
    for path, text in tables.items():
        defined = re.findall(r"^OperatorEntry (\w+)::entry = ", text, re.MULTILINE)
        assert re.findall(r"^    &ops::(\w+)::entry,$", text, re.MULTILINE) == defined, path


@pytest.mark.parametrize(
    ("header", "source"),
    [
        ("aten/matmul_kernels.h", "aten/ops/matmul/matmul_cpu.cpp"),
        ("api/functions.h", "api/tensor.cpp"),
    ],
)
def test_handwritten_sources_of_a_changed_header_are_counted(
    header: str, source: str, before: dict[str, str]
):
    after = before | {header: before[header] + "\n"}
    assert source in compiled(before, after)
    assert "torchgen_out/python/tables.cpp" not in compiled(before, after)


def test_each_signature_is_boxed_in_one_file(before: dict[str, str]):
    """A signature that no file boxes would be missed only when the extension is loaded."""
    kernels = {k for text in before.values() for k in re.findall(r"using Kernel = (.*);", text)}
    boxing = [text for path, text in before.items() if path.startswith("aten/boxing_")]
    boxed = [k for text in boxing for k in re.findall(r"template struct Signature<(.*)>;", text)]
    assert sorted(boxed) == sorted(kernels)
    assert len(boxing) > 1


def test_a_new_entry_leaves_the_others_in_their_files():
    names = [f"operator{i}" for i in range(40)]
    files = {name: suffix for suffix, part in divide(((n, 1, n) for n in names), 12) for name in part}
    more = [*names[:20], "another", *names[20:]]
    again = {name: suffix for suffix, part in divide(((n, 1, n) for n in more), 12) for name in part}
    assert {name: again[name] for name in names} == files
    assert len(set(files.values())) == 4


def test_a_small_family_has_one_file_without_a_number():
    assert list(divide([("a", 1, "a"), ("b", 1, "b")], 2)) == [("", ("a", "b"))]


def test_a_new_entry_before_the_first_caller_of_a_function_does_not_move_its_loop(
    before: dict[str, str], tmp_path: Path
):
    """The loop of softplus serves both the new entry and mish, whose gradient made it."""
    texts = specification()
    after = outputs(texts[0].replace(MISH, NEW_ENTRY + MISH), texts[1], tmp_path)
    files = {p for p, text in before.items() if p.startswith("cpu/") and "_scalar_softplus_loop" in text}
    assert files and {p for p in files if before[p] != after[p]} <= {
        p for p, text in after.items() if p.startswith("cpu/") and "softplus_gap_loop" in text
    }


def test_a_source_includes_the_headers_of_what_it_calls(before: dict[str, str]):
    """One header per family would compile the callers of all its operators again."""
    declared = {
        name: path
        for path, text in before.items()
        if re.fullmatch(r"aten/\w+_ops_\d+\.h", path)
        for name in re.findall(r"^struct (\w+) \{", text, re.MULTILINE)
    }
    assert {"relu", "mm", "add_Tensor"} <= declared.keys()
    for path, text in before.items():
        if path.startswith(("aten/", "autograd/")) and path.endswith(".cpp"):
            called = set(re.findall(r"\bops::(\w+)::(?:call|redispatch|entry)\b", text))
            included = {name.removeprefix("torchgen_out/") for name in INCLUDE.findall(text)}
            assert {declared[name] for name in called if name in declared} <= included, path
            assert not any(name.endswith("_ops.h") for name in included), path
