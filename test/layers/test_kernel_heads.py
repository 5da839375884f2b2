"""Each kernel file of aten/ops opens with formula, accumulate type, NaN and infinity, error and source."""

import re
from pathlib import Path

import pytest
import yaml
from build_support.kernel_heads import ITEMS, is_kernel_file, problems

ROOT = Path(__file__).resolve().parents[2]
OPS = ROOT / "aten" / "ops"


def kernels() -> set[str]:
    """The functions that entries of native_functions.yaml name in `kernels:`."""
    text = (ROOT / "native_functions.yaml").read_text()
    rows = re.findall(r"^  kernels: \{([^}]*)\}", text, re.M)
    return {name for row in rows for name in re.findall(r": *(\w+)", row)}


def kernel_files() -> dict[str, str]:
    named = kernels()
    texts = {path: path.read_text() for path in sorted(OPS.rglob("*.cpp"))}
    return {
        path.relative_to(ROOT).as_posix(): text
        for path, text in texts.items()
        if is_kernel_file(path, text, named)
    }


def test_every_kernel_file_opens_with_the_five_items():
    files = kernel_files()
    assert len(files) > 70, "the search has lost the kernel files"
    assert {name: found for name, text in files.items() if (found := list(problems(text)))} == {}


def test_a_kernel_outside_files_named_so_counts():
    """What defines a kernel is a kernel file under any name; what calls one is not."""
    path = OPS / "conv" / "onednn_conv.cpp"
    assert is_kernel_file(path, "void f_cpu(const Tensor& self) {\n", {"f_cpu"})
    assert not is_kernel_file(path, "void g(const Tensor& self) {\n  f_cpu(self);\n", {"f_cpu"})
    assert len(kernels()) > 150


def test_the_kernel_of_the_scaffold_opens_with_them():
    scaffold = yaml.safe_load((ROOT / "codegen" / "scaffold.yaml").read_text())
    assert list(problems(scaffold["kernels"]["kernel"])) == []


WHOLE = "".join(f"// {name}: x\n" for name in ITEMS)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("#include <vector>\n", "got none"),
        (WHOLE.replace("// Error: x\n", ""), "in this order"),
        (WHOLE.replace("Error: x", "Error:"), "'Error' is empty"),
        (WHOLE + "// Error: y\n", "'Error' is there twice"),
        ("#include <vector>\n" + WHOLE, "got none"),
    ],
)
def test_a_wrong_head_would_be_found(text: str, phrase: str):
    assert any(phrase in problem for problem in problems(text))
    assert list(problems(f"// What the file is.\n{WHOLE}")) == []
    assert list(problems(WHOLE.replace("Formula: x", "Formula:\n//   x"))) == []
