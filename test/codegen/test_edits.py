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


def outputs(native: str, derivatives: str, folder: Path) -> dict[str, str]:
    (folder / "native_functions.yaml").write_text(native)
    (folder / "derivatives.yaml").write_text(derivatives)
    model, found = load(folder / "native_functions.yaml", folder / "derivatives.yaml")
    assert not found and model is not None
    return {path: text for path, text in emit_all(model).items() if path.endswith((".h", ".cpp"))}


@cache
def specification() -> tuple[str, str]:
    return (ROOT / "native_functions.yaml").read_text(), (ROOT / "derivatives.yaml").read_text()


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return outputs(*specification(), tmp_path_factory.mktemp("before"))


def compiler_runs(before: dict[str, str], after: dict[str, str]) -> int:
    """Each changed source once, loops once per set, and each source that includes a changed header."""
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    headers = {path for path in changed if path.endswith(".h")}
    sources = {path for path in after if path.endswith(".cpp")}
    compiled = {
        path
        for path in sources
        if path in changed or any(f'"torchgen_out/{header}"' in after[path] for header in headers)
    }
    assert compiled, "the edit changed nothing that is compiled"
    return sum(SETS if path.startswith("cpu/") else 1 for path in compiled)


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
    "derivative": (1, "self: mm(grad, conj(t(mat2)))", "self: mm(grad, t(conj(mat2)))", 2),
    "documentation": (
        0,
        "summary: Product of two matrices (n, k)",
        "summary: The product of two matrices (n, k)",
        1,
    ),
}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edit_compiles_few_files(kind: str, before: dict[str, str], tmp_path: Path):
    index, old, new, most = EDITS[kind]
    texts = list(specification())
    assert texts[index].count(old) == 1, f"{kind}: choose another entry"
    texts[index] = texts[index].replace(old, new)
    assert compiler_runs(before, outputs(texts[0], texts[1], tmp_path)) <= most


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
